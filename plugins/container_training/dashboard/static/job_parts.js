// What the list of jobs and the page of one job both show.
import { make } from "./dom.js";
import { act, airflowLink, ask, showProblem } from "./shell.js";

export const PHASES = ["queued", "preparing", "running"];
export const PHASE_NAMES = { queued: "Queue", preparing: "Prepare", running: "Run" };

/** "Running" for RUNNING. */
export const stateName = (state) => state[0] + state.slice(1).toLowerCase();

export function stateBadge(state) {
  return make("span", { class: "state", "data-state": state }, make("span", { class: "dot" }), stateName(state));
}

/** Links to the DAG run and the task that submitted a job. */
export function originParts(origin) {
  if (!origin) return [make("span", { class: "quiet-text" }, "no DAG")];
  if (!origin.isKnown) return [make("span", { class: "quiet-text", title: "Airflow has no DAG of this label" }, origin.dag)];
  const dag = `/dags/${encodeURIComponent(origin.dag)}`;
  if (!origin.run) return [airflowLink(dag, origin.dag, { "data-focus": "dag" })];
  const run = `${dag}/runs/${encodeURIComponent(origin.run)}`;
  const parts = [airflowLink(run, origin.dag, { "data-focus": "run", title: `DAG run ${origin.run}` })];
  if (origin.task) {
    const mapped = origin.mapIndex === null ? "" : `/mapped/${origin.mapIndex}`;
    const name = origin.mapIndex === null ? origin.task : `${origin.task} [${origin.mapIndex}]`;
    const task = airflowLink(`${run}/tasks/${encodeURIComponent(origin.task)}${mapped}`, name, { "data-focus": "task" });
    parts.push(make("div", { class: "below" }, task));
  }
  return parts;
}

/** Ask whether to cancel the job, and do it; whether it was done. What goes wrong is shown. */
export async function cancelJob(job) {
  const text = {
    QUEUED: "It has not begun. It leaves the queue and never runs.",
    PREPARING: "Its image is being pulled. It ends before it trains.",
    RUNNING: "Its containers are stopped. What it has not written to its job directory is lost.",
  }[job.state];
  const question = { title: `Cancel ${job.displayName ?? job.id}?`, text, yes: "Cancel the job", no: "Keep it" };
  if (!(await ask(question))) return false;
  try {
    await act(`jobs/${encodeURIComponent(job.id)}/cancel`);
    return true;
  } catch (problem) {
    showProblem(problem);
    return false;
  }
}

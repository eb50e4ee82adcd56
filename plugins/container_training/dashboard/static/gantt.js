// The timeline of a job: phases, pulls of images, and a lane a replica. Bars are for the eye; each row also says it in words.
import { make } from "./dom.js";
import { duration } from "./format.js";

/** A queue longer than this part of the whole is cut off at the left, so that the rest can be seen. */
const LONG_QUEUE = 0.6;
/** A narrower bar, as a part of the whole, has no room for its name. */
const LEAST_LABELLED = 0.08;
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];

/**
 * Draw `view` (see timeline_view.py) into `place`; `now` in seconds since the epoch, for what goes on.
 * Returns a sentence about the replicas that are late, or nothing.
 */
export function drawGantt(place, view, now) {
  const end = view.isLive ? Math.max(now, view.end) : view.end;
  const queue = view.phases.find((phase) => phase.kind === "queue");
  const queued = (queue.end ?? end) - queue.start;
  const whole = Math.max(end - view.start, 0.001);
  const isCut = queue.end !== null && queued / whole > LONG_QUEUE && view.phases.length > 1;
  // A cut queue keeps a tenth of the width.
  const from = isCut ? queue.end - (end - queue.end) / 9 : view.start;
  const scale = { from, seconds: Math.max(end - from, 0.001), end };
  const rows = [axis(scale, view.start), phases(view, scale, isCut ? queued : null)];
  for (const pull of view.pulls) rows.push(pullRow(pull, scale));
  let trial = "";
  for (const lane of view.lanes) {
    const isAlone = view.lanes.filter((other) => other.trial === lane.trial).length === 1;
    if (lane.trial !== trial && !isAlone) rows.push(heading(lane.trial ? `Trial ${lane.trial}` : "Replicas"));
    trial = lane.trial;
    rows.push(laneRow(lane, isAlone && lane.trial ? `Trial ${lane.trial}` : lane.replica, scale));
  }
  if (view.leftOut) rows.push(heading(`${view.leftOut} more replicas are not shown`));
  const table = make("div", { class: "gantt", role: "table", "aria-label": "Timeline" }, ...rows);
  place.replaceChildren(table);
  return lateText(view.lanes.filter((lane) => lane.late));
}

function lateText(late) {
  if (!late.length) return "";
  const parts = late.slice(0, 3).map((lane) => `${laneName(lane)} ${lateParts(lane.late)}`);
  const more = late.length > 3 ? `, and ${late.length - 3} more are late` : "";
  return `Stragglers: ${parts.join("; ")}${more}.`;
}

const laneName = (lane) => (lane.trial ? `${lane.replica} of trial ${lane.trial}` : lane.replica);

function lateParts(late) {
  const parts = [];
  if (late.start !== null) parts.push(`began ${duration(late.start)} after its peers`);
  if (late.end !== null) parts.push(`ended ${duration(late.end)} after its peers`);
  return parts.join(" and ");
}

function row(name, bars, said, attributes = {}) {
  return make(
    "div",
    { class: "gantt-row", role: "row", ...attributes },
    make("div", { class: "gantt-name", role: "rowheader", title: name }, name),
    make("div", { class: "gantt-track", role: "cell", "aria-label": said }, ...bars),
    make("div", { class: "gantt-said", role: "cell" }, said),
  );
}

function heading(text) {
  return make("div", { class: "gantt-row gantt-heading", role: "row" }, make("div", { role: "cell" }, text));
}

function bar(kind, start, end, scale, { title, label = "", ...attributes }) {
  const left = Math.max((start - scale.from) / scale.seconds, 0);
  const right = Math.min(Math.max((end - scale.from) / scale.seconds, left), 1);
  const hasRoom = right - left > LEAST_LABELLED;
  const element = make("div", { class: "bar-of", "data-kind": kind, title, ...attributes }, hasRoom ? label : "");
  element.style.left = `${left * 100}%`;
  element.style.width = `${(right - left) * 100}%`;
  return element;
}

function axis(scale, start) {
  const step = TICKS.find((tick) => scale.seconds / tick <= 8) ?? scale.seconds / 6;
  const ticks = [];
  for (let at = Math.ceil((scale.from - start) / step) * step; at <= scale.end - start; at += step) {
    const place = (start + at - scale.from) / scale.seconds;
    if (place > 0.96) break; // its label would not fit
    const tick = make("span", { class: "gantt-tick" }, at === 0 ? "0" : duration(at).replace(".0 s", " s"));
    tick.style.left = `${place * 100}%`;
    ticks.push(tick);
  }
  return make(
    "div",
    { class: "gantt-row gantt-axis", "aria-hidden": "true" },
    make("div", { class: "gantt-name" }),
    make("div", { class: "gantt-track" }, ...ticks),
    make("div", { class: "gantt-said" }, "since it was created"),
  );
}

function phases(view, scale, cutQueue) {
  const names = { queue: "Queue", prepare: "Prepare", run: "Run" };
  const said = [];
  const bars = view.phases.map((phase) => {
    const seconds = (phase.end ?? scale.end) - phase.start;
    const text = `${names[phase.kind]} ${duration(seconds)}`;
    said.push(`${names[phase.kind].toLowerCase()} ${duration(seconds)}`);
    const isCut = phase.kind === "queue" && cutQueue !== null;
    const label = isCut ? `⋯ ${duration(cutQueue)}` : names[phase.kind];
    return bar(phase.kind, phase.start, phase.end ?? scale.end, scale, { title: text, label, "data-live": phase.end === null });
  });
  return row("Job", bars, said.join(", "));
}

function pullRow(pull, scale) {
  const seconds = duration(pull.end - pull.start);
  const name = pull.image.replace(/@sha256:([0-9a-f]{8})[0-9a-f]+/, "@$1…").replace(/^.*\//, "");
  const of = pull.trial ? ` of trial ${pull.trial}` : "";
  return row(`Pull ${name}`, [bar("pull", pull.start, pull.end, scale, { title: `${pull.image}: ${seconds}` })], `pulled${of} in ${seconds}`, {
    title: pull.image,
  });
}

function laneRow(lane, name, scale) {
  const last = lane.runs.at(-1);
  const restarts = lane.runs.length - 1;
  const bars = lane.runs.map((run) => {
    const end = run.end ?? scale.end;
    return bar(runKind(run), run.start, end, scale, { title: runTitle(run, end), "data-live": run.end === null });
  });
  const said = [`${duration((last.end ?? scale.end) - last.start)}${outcome(last)}`];
  if (restarts) said.push(restarts === 1 ? "restarted once" : `restarted ${restarts} times`);
  if (lane.late) said.push(lateParts(lane.late));
  return row(name, bars, said.join(", "), { "data-late": Boolean(lane.late) });
}

function runKind(run) {
  if (run.end === null) return "live";
  if (run.outOfMemory || run.exitCode) return "bad";
  return run.exitCode === 0 ? "good" : "unknown";
}

function outcome(run) {
  if (run.end === null) return ", running";
  if (run.outOfMemory) return ", out of memory";
  if (run.exitCode === null) return run.isEndSeen ? "" : ", its end was not seen";
  return run.exitCode === 0 ? ", ended well" : `, exit ${run.exitCode}`;
}

function runTitle(run, end) {
  const tries = run.retry || run.restart ? `retry ${run.retry}, restart ${run.restart}: ` : "";
  return `${tries}${duration(end - run.start)}${outcome(run)}`;
}

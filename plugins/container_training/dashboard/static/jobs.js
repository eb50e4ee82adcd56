// The list of jobs: filters that are the page's address, rows that stay up to date, and the cancel button.
import { byId, make, setText } from "./dom.js";
import { ago, count, duration, moment, money } from "./format.js";
import { PHASES, PHASE_NAMES, cancelJob, originParts, stateBadge, stateName } from "./job_parts.js";
import { api, live, pageAddress, setAddress, showProblem } from "./shell.js";

const FIELDS = ["name", "dag", "label", "since", "from", "to"];
const STATES = ["QUEUED", "PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"];
/** Pause after a key before the service is asked, and between two looks at jobs that cost money. */
const TYPING_MILLISECONDS = 250;
const LOOK_MILLISECONDS = 30_000;

const form = byId("filters");
const rows = new Map();
let newest = "";
let asked = null;
let answer = null;
let answeredAt = 0;

/** The address is the only place where the filter is kept: shared, gone back to, loaded anew, it is the same. */
const query = () => new URLSearchParams(location.search);
const offset = () => Number(query().get("offset") ?? 0);

function fillForm() {
  const current = query();
  for (const name of FIELDS) {
    const field = form.elements[name];
    const value = current.get(name) ?? "";
    if (name === "since") field.value = current.has("from") || current.has("to") ? "between" : value;
    else if (field !== document.activeElement) field.value = name === "from" || name === "to" ? localTime(value) : value;
  }
  for (const label of form.querySelectorAll("[data-between]")) label.hidden = form.elements.since.value !== "between";
  const chosen = new Set(current.getAll("state"));
  for (const box of form.querySelectorAll("input[name=state]")) box.checked = chosen.has(box.value);
  byId("clear").hidden = ![...FIELDS, "state"].some((name) => current.has(name));
}

function readForm() {
  const wanted = new URLSearchParams();
  const conn = query().get("conn_id");
  if (conn) wanted.set("conn_id", conn);
  for (const box of form.querySelectorAll("input[name=state]:checked")) wanted.append("state", box.value);
  const between = form.elements.since.value === "between";
  for (const name of FIELDS) {
    let value = form.elements[name].value.trim();
    if (name === "since" && between) value = "";
    if (name === "from" || name === "to") value = between ? worldTime(value) : "";
    if (value) wanted.set(name, value);
  }
  return wanted;
}

/** What an input of a local time shows for an address's UTC time, and back. */
function localTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function worldTime(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString().replace(".000Z", "Z");
}

async function load() {
  asked?.abort();
  const mine = new AbortController();
  asked = mine;
  const wanted = query();
  wanted.delete("offset");
  if (newest) wanted.set("version", newest);
  byId("table-box").setAttribute("aria-busy", "true");
  try {
    answer = await api("jobs", wanted, { signal: mine.signal });
  } catch (problem) {
    if (problem.name === "AbortError") return;
    showProblem(problem);
    byId("table-box").hidden = !answer; // rows that are there are still worth something
    return;
  } finally {
    if (asked === mine) byId("table-box").setAttribute("aria-busy", "false");
  }
  answeredAt = performance.now();
  byId("table-box").hidden = false;
  showProblem(answer.priceProblem ? { message: answer.priceProblem, advice: "Until then no cost is shown." } : null);
  show();
}

function show() {
  showStates(answer.states);
  const body = byId("rows");
  const wanted = new Set(answer.jobs.map((job) => job.id));
  for (const [id, row] of rows) {
    if (!wanted.has(id)) {
      row.element.remove();
      rows.delete(id);
    }
  }
  let place = null;
  for (const job of answer.jobs) {
    const row = rows.get(job.id) ?? { element: make("tr", { role: "row" }), shown: "" };
    rows.set(job.id, row);
    row.job = job;
    const shape = JSON.stringify({ ...job, seconds: null, cost: job.cost && job.cost.currency });
    if (row.shown !== shape) {
      fillRow(row);
      row.shown = shape;
    }
    const next = place ? place.nextSibling : body.firstChild;
    if (next !== row.element) body.insertBefore(row.element, next);
    place = row.element;
  }
  document.querySelector("[data-cost]").hidden = !answer.hasPrices;
  byId("jobs").classList.toggle("no-cost", !answer.hasPrices);
  byId("jobs").hidden = !answer.jobs.length;
  showNothing();
  showPaging();
  tick();
}

function showNothing() {
  const box = byId("nothing");
  box.hidden = answer.jobs.length > 0;
  const filtered = !byId("clear").hidden;
  if (filtered) setText(box, "No job matches. Change the filter, or clear it.");
  else if (answer.isAll) setText(box, "No job was submitted to this service yet. Run a DAG that trains, and its job appears here.");
  else setText(box, "There are no jobs of the DAGs that you may read.");
}

function showPaging() {
  const first = offset() + 1;
  const last = offset() + answer.jobs.length;
  setText(byId("count"), answer.total === 1 ? "1 job" : `${count(answer.total)} jobs`);
  const isPaged = offset() > 0 || Boolean(answer.next);
  byId("paging").hidden = !isPaged;
  setText(byId("place"), answer.jobs.length ? `${count(first)}–${count(last)} of ${count(answer.total)}` : "");
  byId("next").disabled = !answer.next;
  byId("previous").disabled = offset() === 0;
}

function offerStates() {
  byId("states").append(
    ...STATES.map((state) =>
      make(
        "label",
        { class: "chip", "data-state": state },
        make("input", { type: "checkbox", name: "state", value: state }),
        make("span", { class: "dot" }),
        make("span", {}, stateName(state)),
        make("span", { class: "chip-count", "data-count": state }),
      ),
    ),
  );
}

function showStates(counts) {
  for (const state of STATES) setText(document.querySelector(`[data-count=${state}]`), count(counts[state] ?? 0));
}

/** A cell that also says, on narrow screens, what it is. */
function cell(name, attributes, ...children) {
  return make("td", { role: "cell", "data-name": name, ...attributes }, ...children);
}

function fillRow(row) {
  const { job, element } = row;
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  element.dataset.state = job.state;
  const created = new Date(job.createTime);
  element.replaceChildren(
    make(
      "th",
      { role: "rowheader", scope: "row", "data-name": "Job" },
      make("a", { href: pageAddress(`jobs/${encodeURIComponent(job.id)}`), "data-focus": "job", class: "job-id" }, job.displayName ?? job.id),
      make("div", { class: "below" }, job.displayName ? `${job.api} · ${job.id}` : job.api),
      make("div", { class: "below" }, job.machines, ...labelChips(job.labels)),
    ),
    cell("State", {}, ...stateParts(job)),
    cell("Started by", {}, ...originParts(job.origin)),
    cell("Created", {}, make("time", { datetime: job.createTime, title: moment(created) }, ago(created))),
    ...PHASES.map((phase) =>
      cell(PHASE_NAMES[phase], { class: "number", "data-phase": phase }),
    ),
    cell("Cost", { class: "number", "data-cost-of": job.id }),
    cell("Actions", { class: "actions" }, cancelButton(job)),
  );
  if (focused) element.querySelector(`[data-focus="${focused}"]`)?.focus();
}

function stateParts(job) {
  const parts = [stateBadge(job.state)];
  if (job.trials) parts.push(make("div", { class: "below" }, `${job.trials.ended} of ${job.trials.total} trials`));
  else if (job.state === "QUEUED" && job.position) parts.push(make("div", { class: "below" }, `place ${job.position}`));
  if (job.error) parts.push(make("div", { class: "below error", title: job.error }, job.error));
  return parts;
}

function labelChips(labels) {
  return Object.entries(labels).map(([key, value]) =>
    make(
      "button",
      {
        type: "button",
        class: "label",
        title: `Only jobs with ${key}=${value}`,
        "data-focus": `label-${key}`,
        onclick: () => {
          form.elements.label.value = `${key}=${value}`;
          apply();
        },
      },
      `${key}=${value}`,
    ),
  );
}

function cancelButton(job) {
  if (!job.canCancel) return null;
  const label = `Cancel job ${job.displayName ?? job.id}`;
  return make(
    "button",
    { type: "button", class: "quiet", "aria-label": label, "data-focus": "cancel", onclick: () => cancel(job) },
    "Cancel",
  );
}

async function cancel(job) {
  if (!(await cancelJob(job))) return;
  newest = `cancelled ${Date.now()}`; // our own change, so what was answered before it does not serve
  await load();
}

/** Seconds and money go on between two answers. */
function tick() {
  if (!answer) return;
  const passed = (performance.now() - answeredAt) / 1000;
  for (const { job, element } of rows.values()) {
    for (const phase of PHASES) {
      const seconds = job.seconds[phase];
      const grows = job.phase === phase;
      const text = duration(grows && seconds !== null ? seconds + passed : seconds);
      setText(element.querySelector(`[data-phase=${phase}]`), grows ? text.replace(/\.\d s$/, " s") : text);
    }
    setText(element.querySelector("time"), ago(new Date(job.createTime)));
    const cost = job.cost && money(job.cost.amount + job.cost.perSecond * passed, job.cost.currency);
    setText(element.querySelector("[data-cost-of]"), cost || "–");
  }
}

function apply({ replace = false } = {}) {
  setAddress(readForm(), { replace });
  fillForm();
  load();
}

let typing = null;
form.addEventListener("input", (event) => {
  clearTimeout(typing);
  const isText = event.target.type === "search";
  for (const label of form.querySelectorAll("[data-between]")) label.hidden = form.elements.since.value !== "between";
  if (event.target.name === "since" && event.target.value === "between") return;
  typing = setTimeout(() => apply({ replace: isText }), isText ? TYPING_MILLISECONDS : 0);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  apply();
});
form.addEventListener("reset", (event) => {
  event.preventDefault();
  for (const box of form.querySelectorAll("input[name=state]")) box.checked = false;
  for (const name of FIELDS) form.elements[name].value = "";
  apply();
});
form.elements.dag.addEventListener(
  "focus",
  async () => {
    const { dags } = await api("dags").catch(() => ({ dags: [] })); // without proposals the field still works
    byId("dags").replaceChildren(...dags.map((dag) => make("option", { value: dag })));
  },
  { once: true },
);
byId("next").addEventListener("click", () => {
  const wanted = query();
  wanted.set("after", answer.next);
  wanted.set("offset", String(offset() + answer.pageSize));
  turn(wanted, { previous: location.search });
});
byId("previous").addEventListener("click", () => {
  const before = history.state?.previous;
  const wanted = new URLSearchParams(before ?? query());
  if (before === undefined) {
    wanted.delete("after");
    wanted.delete("offset");
  }
  turn(wanted, history.state?.earlier ?? null);
});
function turn(wanted, state) {
  setAddress(wanted, { state: { ...state, earlier: history.state } });
  load().then(() => byId("main").scrollIntoView());
}
addEventListener("popstate", () => {
  fillForm();
  load();
});

offerStates();
fillForm();
load();
live((version) => {
  newest = version ?? newest;
  load();
});
setInterval(tick, 1000);
setInterval(() => {
  if (!document.hidden) load(); // also "5 min ago", the cost of trials, and the end of a connection
}, LOOK_MILLISECONDS);

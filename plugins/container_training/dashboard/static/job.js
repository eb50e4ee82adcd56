// The page of one job: what it is and became, and, while it runs, what it does.
import { byId, make, setText } from "./dom.js";
import { ago, bytes, duration, moment, money } from "./format.js";
import { drawGantt } from "./gantt.js";
import { showCurves, showUsage } from "./job_charts.js";
import { JobLog } from "./job_log.js";
import { PHASES, PHASE_NAMES, cancelJob, originParts, stateBadge } from "./job_parts.js";
import { showTrials } from "./job_trials.js";
import { ROOT, api, live, outsideLink, pageAddress, showProblem } from "./shell.js";

const ID = decodeURIComponent(location.pathname.slice(`${ROOT}/jobs/`.length));
const BASE = `jobs/${encodeURIComponent(ID)}`;
/** Pause between two looks at a job that runs. */
const LOOK_MILLISECONDS = 4000;

let newest = "";
let answer = null;
let answeredAt = 0;
let timeline = null;
let log = null;
let looking = null;
let filesOf = "";
const seen = new Map();

const setTitle = (title) => {
  setText(byId("name"), title);
  document.title = `${title} · Training`;
};
setTitle(ID);

const isEnded = () => ["SUCCEEDED", "FAILED", "CANCELLED"].includes(answer.job.state);
const now = () => Date.parse(answer.now) / 1000 + (performance.now() - answeredAt) / 1000;

/** Whether `value` is another one than the last time: what did not change is left alone, with the focus that is in it. */
function isNew(name, value) {
  const text = JSON.stringify(value);
  const before = seen.get(name);
  seen.set(name, text);
  return text !== before;
}

async function load() {
  const query = newest ? { version: newest } : {};
  try {
    answer = await api(BASE, query);
  } catch (problem) {
    showProblem(problem);
    if (!answer) byId("job").hidden = true;
    return;
  }
  if (answer.job.id !== ID) {
    // What was asked for is a resource name, or a pipeline: every page has one address.
    location.replace(pageAddress(`jobs/${encodeURIComponent(answer.job.id)}`));
    return;
  }
  answeredAt = performance.now();
  byId("job").hidden = false;
  byId("job").setAttribute("aria-busy", "false");
  showProblem(answer.priceProblem ? { message: answer.priceProblem, advice: "Until then no cost is shown." } : null);
  const { job } = answer;
  // Seconds and money go on by themselves, see tick().
  if (isNew("head", [{ ...job, seconds: null, cost: Boolean(job.cost) }, answer.startedBy])) showHead();
  tick();
  showWhy();
  if (isNew("request", [answer.request, answer.pools, answer.images])) showRequest();
  showTrials(ID, answer.study, newest);
  log ??= new JobLog(ID);
  log.setLive(!isEnded());
  // The service has other jobs, too, that change.
  if (isNew("look", [job.state, answer.study?.trials.map((trial) => [trial.state, trial.objective])])) look();
  showFiles();
  byId("metrics").hidden = byId("resources").hidden = !answer.hasSeries;
  showContents();
}

/** What changes all the time: asked for again and again while the job runs, and once more when it has ended. */
async function look() {
  clearTimeout(looking);
  const version = newest ? { version: newest } : {};
  const series = answer.hasSeries ? [api(`${BASE}/curves`), api(`${BASE}/usage`)] : [];
  const asked = [api(`${BASE}/timeline`, version), ...series];
  const [lanes, curves, usage] = await Promise.allSettled(asked);
  if (lanes.status === "fulfilled") {
    timeline = lanes.value;
    showTimeline();
    const replicas = [...new Set(timeline.lanes.map((lane) => lane.replica))];
    log.offer(replicas, answer.study ? answer.study.trials.map((trial) => trial.id) : []);
  }
  if (curves?.status === "fulfilled") showCurves(curves.value.metrics, answer.study?.best, !isEnded());
  if (usage?.status === "fulfilled") showUsage(usage.value.series, !isEnded());
  const refused = [lanes, curves, usage].find((one) => one?.status === "rejected");
  if (refused) showProblem(refused.reason);
  if (!isEnded()) looking = setTimeout(() => (document.hidden ? null : look()), LOOK_MILLISECONDS);
}

function showHead() {
  const { job } = answer;
  setTitle(job.displayName ?? job.id);
  setText(byId("resource"), answer.pipeline ? `${answer.name}, made by ${answer.pipeline.name}` : answer.name);
  byId("state").replaceChildren(stateBadge(job.state));
  const button = make("button", { type: "button", class: "danger-quiet", id: "cancel", onclick: cancel }, "Cancel the job");
  const present = byId("cancel");
  if (!job.canCancel) present?.remove();
  else if (!present) byId("actions").replaceChildren(button);
  const created = new Date(job.createTime);
  const rows = [
    ["Job id", job.displayName ? [make("code", {}, job.id)] : null],
    ["API", [job.api]],
    ["Pipeline", answer.pipeline?.displayName ? [answer.pipeline.displayName] : null],
    ["Started by", [...originParts(job.origin), answer.startedBy && make("div", { class: "below" }, answer.startedBy)]],
    ["Created", [make("time", { datetime: job.createTime, title: moment(created) }, ago(created)), make("div", { class: "below" }, moment(created))]],
    ...PHASES.map((phase) => [PHASE_NAMES[phase], [make("span", { "data-phase": phase })]]),
    ["Cost", job.cost ? [make("span", { "data-cost-of": job.id })] : null],
    ["Machines", [job.machines]],
    ["Trials", job.trials ? [`${job.trials.ended} of ${job.trials.total} ended`] : null],
    ["Place in the queue", job.state === "QUEUED" && job.position ? [String(job.position)] : null],
  ];
  const labels = Object.entries(job.labels).map(([key, value]) => make("span", { class: "tag" }, `${key}=${value}`));
  rows.push(["Labels", labels.length ? labels : null]);
  fillList(byId("facts"), rows);
}

function showWhy() {
  const { explanation, job } = answer;
  byId("why").hidden = !explanation;
  if (!explanation) return;
  byId("why").dataset.state = job.state;
  setText(byId("why-title"), explanation.title);
  setText(byId("why-text"), explanation.text);
  setText(byId("why-fix"), explanation.fix);
  setText(byId("why-message"), job.error ?? "");
  byId("why-message").hidden = !job.error;
  const [page, part] = explanation.docs.split("#");
  setText(byId("why-docs"), `More: ${page}, “${part.replaceAll("-", " ")}”`);
}

function showRequest() {
  const labels = Object.entries(answer.labels).map(([key, value]) => make("span", { class: "tag" }, `${key}=${value}`));
  const isAlone = answer.pools.length === 1;
  const pools = answer.pools.flatMap((pool, index) => poolRows(pool, answer.images[index], isAlone ? "" : ` of ${pool.name}`));
  fillList(byId("request-facts"), [
    ...pools,
    ["All labels", labels.length ? labels : null],
    ["Folder", answer.folder ? [make("code", {}, answer.folder)] : ["none"]],
    ["Region", answer.region ? [answer.region] : null],
    ["Limits", limits(answer.limits)],
  ]);
  setText(byId("request-json"), JSON.stringify(answer.request, null, 2));
}

/** What one pool of replicas runs, and on what. */
function poolRows(pool, image, of) {
  const accelerators = pool.acceleratorCount ? `, ${pool.acceleratorCount} x ${pool.accelerator}` : "";
  const words = (texts) => texts.map((text) => make("code", { class: "argument" }, text));
  return [
    [`Replicas${of}`, [`${pool.count} x ${pool.machineType}${accelerators}`]],
    [`Image${of}`, [imageElement(image)]],
    [`Command${of}`, pool.command?.length ? words(pool.command) : null],
    [`Arguments${of}`, pool.args?.length ? words(pool.args) : ["none"]],
  ];
}

const imageElement = (image) =>
  make(
    "div",
    { class: "image" },
    make("code", {}, image.pinned ?? image.uri),
    image.pinned && image.pinned !== image.uri ? make("div", { class: "below" }, `asked for as ${image.uri}`) : null,
    image.pinned ? null : make("div", { class: "below" }, "its digest is known once it was pulled"),
  );

function limits({ wait, run }) {
  const parts = [];
  if (wait) parts.push(`wait ${duration(wait)}`);
  if (run) parts.push(`run ${duration(run)}`);
  return parts.length ? [parts.join(", ")] : null;
}

function showTimeline() {
  const late = drawGantt(byId("gantt"), timeline, now());
  setText(byId("timeline-late"), late);
  byId("timeline-late").hidden = !late;
}

/** Files are looked at when the job's state or its trials change: the object store is not asked every second. */
async function showFiles() {
  byId("results").hidden = !answer.folder;
  const ended = answer.study?.trials.filter((trial) => trial.endTime).length ?? 0;
  const wanted = `${answer.job.state} ${ended}`;
  if (!answer.folder || filesOf === wanted) return;
  filesOf = wanted;
  let found;
  try {
    found = await api(`${BASE}/files`, newest ? { version: newest } : {});
  } catch (problem) {
    filesOf = "";
    byId("files").hidden = true;
    setText(byId("files-nothing"), `${problem.message.replace(/[.\s]*$/, ".")} ${problem.advice}`);
    byId("files-nothing").hidden = false;
    return;
  }
  byId("files-folder").replaceChildren(outsideLink(found.folderUrl, found.folder));
  byId("files").hidden = !found.files.length;
  byId("files-nothing").hidden = found.files.length > 0;
  setText(byId("files-nothing"), isEnded() ? "The job left no file." : "The job has written no file yet.");
  const rows = found.files.map((file) =>
    make("tr", {}, make("th", { scope: "row" }, outsideLink(file.url, file.name)), make("td", { class: "number" }, bytes(file.bytes))),
  );
  const head = make("tr", {}, make("th", { scope: "col" }, "File"), make("th", { scope: "col", class: "number" }, "Size"));
  const more = found.isCut ? make("p", { class: "quiet-text" }, `The first ${found.files.length}; the folder has more.`) : null;
  byId("files").replaceChildren(...[make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)), more].filter(Boolean));
  showMetricsFile(found);
}

function showMetricsFile(found) {
  const { metrics } = found;
  const isObject = metrics !== null && typeof metrics === "object" && !Array.isArray(metrics);
  const pairs = isObject ? Object.entries(metrics) : metrics === null ? [] : [["metrics.json", metrics]];
  const show = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : typeof value === "string" ? value : JSON.stringify(value));
  fillList(byId("final-metrics"), pairs.slice(0, 40).map(([name, value]) => [name, [show(value)]]));
  byId("final-metrics").hidden = !pairs.length;
}

/** Links to the parts of the page that are there. */
function showContents() {
  const links = [...document.querySelectorAll("section.card:not([hidden])")].map((section) =>
    make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent),
  );
  if (byId("contents").childElementCount !== links.length) byId("contents").replaceChildren(...links);
}

function fillList(list, rows) {
  const present = rows.filter(([, parts]) => parts);
  list.replaceChildren(...present.map(([name, parts]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...parts.filter(Boolean)))));
}

async function cancel() {
  if (!(await cancelJob(answer.job))) return;
  newest = `cancelled ${Date.now()}`; // our own change, so what was answered before it does not serve
  await load();
}

/** Seconds, money and bars go on between two answers. */
function tick() {
  if (!answer) return;
  const { job } = answer;
  const passed = (performance.now() - answeredAt) / 1000;
  for (const phase of PHASES) {
    const seconds = job.seconds[phase];
    const grows = job.phase === phase;
    const text = duration(grows && seconds !== null ? seconds + passed : seconds);
    const place = document.querySelector(`[data-phase=${phase}]`);
    if (place) setText(place, grows ? text.replace(/\.\d s$/, " s") : text);
  }
  const created = document.querySelector("#facts time");
  if (created) setText(created, ago(new Date(job.createTime)));
  const cost = document.querySelector("[data-cost-of]");
  if (cost && job.cost) setText(cost, money(job.cost.amount + job.cost.perSecond * passed, job.cost.currency));
  if (timeline?.isLive && !document.hidden && !byId("gantt").matches(":focus-within, :hover")) showTimeline();
}

load();
live((version) => {
  newest = version ?? newest;
  load();
});
setInterval(tick, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && answer && !isEnded()) look();
});

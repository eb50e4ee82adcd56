// The fleet: what there is and is used, how long jobs wait, why they fail, what they cost, which models grow old, who is left alone.
import { Chart } from "./charts.js";
import { byId, make, setText } from "./dom.js";
import { ago, count, duration, money } from "./format.js";
import { airflowLink, api, live, pageAddress, setAddress, showProblem } from "./shell.js";

const WINDOWS = { "24h": "the last 24 hours", "7d": "the last 7 days", "30d": "the last 30 days" };
const GIB = 1024 ** 3;
const KINDS = {
  cpus: { name: "CPU cores", of: (value) => value, format: (value) => `${short(value)} ${value === 1 ? "core" : "cores"}` },
  memoryBytes: { name: "memory", of: (value) => value / GIB, format: (value) => `${short(value)} GiB` },
  gpus: { name: "GPUs", of: (value) => value, format: (value) => `${short(value)} GPUs` },
  replicas: { name: "replicas", of: (value) => value, format: (value) => `${short(value)} replicas` },
};
/** A change is shown within two seconds, and many changes cost one question a second; orphans and ages change slowly. */
const LEAST_MILLISECONDS = 1000;
const LOOK_MILLISECONDS = 15_000;
const ORPHANS_MILLISECONDS = 30_000;

const charts = { use: new Chart(byId("use")), queue: new Chart(byId("queue")), cost: new Chart(byId("cost")) };
let newest = "";
let report = null;
let answer = null;
let orphans = null;
let asked = null;
let askedAt = -Infinity;
let later = null;

const query = () => new URLSearchParams(location.search);
const chosen = (name, fallback) => query().get(name) ?? fallback;
const windowName = () => (chosen("window", "24h") in WINDOWS ? chosen("window", "24h") : "24h");

async function load() {
  clearTimeout(later);
  asked?.abort();
  const mine = new AbortController();
  asked = mine;
  askedAt = performance.now();
  const wanted = query();
  wanted.set("window", windowName());
  wanted.delete("kind");
  if (newest) wanted.set("version", newest);
  if (report) wanted.set("known", report.id);
  try {
    answer = await api("fleet", wanted, { signal: mine.signal });
  } catch (problem) {
    if (problem.name === "AbortError") return;
    showProblem(problem);
    byId("fleet").hidden = byId("window").hidden = problem.status === 501; // this API never tells
    return;
  } finally {
    if (asked === mine) byId("fleet").setAttribute("aria-busy", "false");
  }
  byId("fleet").hidden = byId("window").hidden = false;
  const [problem] = answer.problems;
  showProblem(problem ? { message: problem, advice: "Until then what needs it is not shown. Admin, Connections." } : null);
  const isNew = Boolean(answer.report);
  report = answer.report ?? report;
  if (isNew) showReport();
  showTiles();
}

async function loadOrphans() {
  try {
    orphans = await api("fleet/orphans");
  } catch (problem) {
    orphans = { problem };
  }
  showOrphans();
  if (answer) showTiles();
}

/** Ask soon, but not more often than once in `LEAST_MILLISECONDS`. */
function loadSoon() {
  clearTimeout(later);
  later = setTimeout(load, Math.max(LEAST_MILLISECONDS - (performance.now() - askedAt), 0));
}

function showReport() {
  for (const box of document.querySelectorAll("input[name=window]")) box.checked = box.value === windowName();
  const scope = answer.isAll ? "" : " of the DAGs that you may read";
  const rare = report.uncounted ? `; ${count(report.uncounted)} on rare machines are counted here only` : "";
  setText(byId("scope"), `${count(report.jobs)} ${report.jobs === 1 ? "job" : "jobs"}${scope} in ${WINDOWS[windowName()]}${rare}`);
  showUse();
  showQueue();
  showCost();
  showWaits();
  showFailures();
  showModels();
}

function showTiles() {
  const { now } = answer;
  const tiles = [useTile(now), jobsTile(now), queueTile(now), failuresTile()];
  if (report.cost) tiles.push(costTile());
  tiles.push(modelsTile(), orphansTile());
  const box = byId("tiles");
  const shown = JSON.stringify(tiles);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  box.replaceChildren(...tiles.map(tileElement));
}

function tileElement({ title, figure, unit, detail, kind, share }) {
  const element = make(
    "div",
    { class: "tile", "data-kind": kind },
    make("h2", {}, title),
    make("div", { class: "figure" }, figure, unit ? make("small", {}, ` ${unit}`) : null),
    make("p", { class: "detail" }, detail),
  );
  if (share !== undefined) {
    const bar = make("span");
    bar.style.width = `${Math.min(share, 1) * 100}%`;
    element.append(make("div", { class: "meter", "aria-hidden": "true" }, bar));
  }
  return element;
}

function useTile({ capacity, used }) {
  if (!capacity || !used) return { title: "In use", figure: "–", detail: "The engine does not answer: nobody knows the capacity." };
  const share = capacity.cpus ? used.cpus / capacity.cpus : 0;
  const cores = `${short(used.cpus)} of ${short(capacity.cpus)} cores`;
  const memory = `${short(used.memoryBytes / GIB)} of ${short(capacity.memoryBytes / GIB)} GiB`;
  const gpus = capacity.gpus ? `, ${short(used.gpus ?? 0)} of ${capacity.gpus} GPUs` : "";
  return {
    title: answer.isAll ? "In use" : "In use by your jobs",
    figure: `${Math.round(share * 100)} %`,
    detail: `${cores}, ${memory}${gpus}`,
    share,
  };
}

function jobsTile({ states }) {
  return { title: "Running", figure: count(states.RUNNING), detail: `${count(states.PREPARING)} preparing, ${count(states.CANCELLING)} ending` };
}

function queueTile({ states }) {
  const oldest = report.oldestQueued;
  const waits = states.QUEUED && oldest ? `the oldest came ${ago(new Date(oldest * 1000))}` : "nobody waits";
  return { title: "Queue", figure: count(states.QUEUED), unit: states.QUEUED === 1 ? "job" : "jobs", detail: waits };
}

function failuresTile() {
  const { SUCCEEDED: good, FAILED: bad, CANCELLED: cancelled } = report.outcomes;
  const share = good + bad ? bad / (good + bad) : 0;
  return {
    title: "Failed",
    figure: good + bad ? percent(share) : "–",
    unit: good + bad ? `of ${count(good + bad)}` : "",
    detail: `${count(bad)} failed, ${count(cancelled)} cancelled`,
  };
}

function costTile() {
  return { title: "Cost", figure: amount(report.cost.total), unit: report.cost.currency, detail: `in ${WINDOWS[windowName()]}` };
}

function modelsTile() {
  const { models } = report;
  const overdue = models.filter((model) => model.isOverdue).length;
  const limited = models.filter((model) => model.limitSeconds !== null).length;
  const known = models.length ? `${limited} of ${models.length} ${models.length === 1 ? "model has" : "models have"} a limit` : "no job has the label model";
  return { title: "Models overdue", figure: count(overdue), detail: known, kind: overdue ? "bad" : undefined };
}

function orphansTile() {
  if (!orphans || orphans.problem) return { title: "Orphans", figure: "–", detail: orphans ? "not known" : "looking" };
  const strangers = orphans.total - orphans.orphans;
  const detail = strangers
    ? `${count(strangers)} more of no task of this Airflow`
    : orphans.orphans
      ? "no task waits for them"
      : "every job is looked after";
  return { title: "Orphans", figure: count(orphans.orphans), detail, kind: orphans.orphans ? "bad" : undefined };
}

function showUse() {
  const select = byId("use-kind");
  for (const option of select.options) option.hidden = option.disabled = !(option.value in report.use);
  const wanted = chosen("kind", "cpus");
  select.value = wanted in report.use ? wanted : "cpus";
  const kind = KINDS[select.value];
  const { mean, peak } = report.use[select.value];
  const capacity = answer.now.capacity?.[select.value];
  const hasCapacity = capacity !== undefined && capacity > 0; // 0 replicas: any number
  const means = mean.map(kind.of);
  const peaks = peak.map(kind.of);
  const limit = hasCapacity ? kind.of(capacity) : null;
  const series = [
    { name: "average", values: means, colour: "--chart-1", style: "area" },
    { name: "peak", values: peaks, colour: "--chart-2", style: "line" },
  ];
  if (limit !== null) {
    series.push({ name: "capacity now", values: means.map(() => limit), colour: "--chart-8", style: "dashed", total: kind.format(limit) });
  }
  const of = limit === null ? "" : ` of ${kind.format(limit)}`;
  const average = weighted(means);
  const share = limit ? ` (${percent(average / limit)})` : "";
  charts.use.show({
    ...past(),
    title: `Capacity and use of ${kind.name}`,
    summary: `On average ${limit === null ? kind.format(average) : short(average)}${of}${share}; at most ${kind.format(Math.max(0, ...peaks))}${at(peaks)}.`,
    series,
    format: (value, isAxis) => (isAxis ? short(value) : kind.format(value)),
  });
}

function showQueue() {
  const { mean, peak } = report.queue;
  const most = Math.max(0, ...peak);
  charts.queue.show({
    ...past(),
    title: "Queue length",
    summary: most ? `On average ${short(weighted(mean))} jobs waited, at most ${count(most)}${at(peak)}.` : "No job waited.",
    series: [
      { name: "average", values: mean, colour: "--chart-4", style: "area" },
      { name: "peak", values: peak, colour: "--chart-5", style: "line" },
    ],
    format: (value, isAxis) => (isAxis ? short(value) : `${short(value)} ${value === 1 ? "job" : "jobs"}`),
  });
}

function showCost() {
  const { cost } = report;
  byId("cost-card").hidden = !cost;
  if (!cost) return;
  const select = byId("cost-by");
  const keys = cost.by.startsWith("label:") && !cost.keys.includes(cost.by.slice(6)) ? [...cost.keys, cost.by.slice(6)] : cost.keys;
  const wanted = ["dag", ...keys.map((key) => `label:${key}`)];
  if ([...select.options].map((option) => option.value).join() !== wanted.join()) {
    select.replaceChildren(...wanted.map((value) => make("option", { value }, value === "dag" ? "DAG" : `label ${value.slice(6)}`)));
  }
  select.value = cost.by;
  const none = cost.by === "dag" ? "no DAG" : `no label ${cost.by.slice(6)}`;
  const series = cost.groups.map((group, place) => ({
    name: group.name === null ? "others" : group.name || none,
    values: group.amounts,
    colour: group.name === null ? "--chart-8" : `--chart-${place + 1}`,
    style: "bar",
    total: money(group.total, cost.currency),
  }));
  const dearest = cost.groups[0];
  charts.cost.show({
    title: "Cost",
    summary: dearest
      ? `${money(cost.total, cost.currency)} in all; most by ${series[0].name}, ${percent(dearest.total / cost.total)}.`
      : "Nothing that has a price ran.",
    times: cost.times,
    seconds: cost.seconds,
    until: report.until,
    utc: cost.seconds > 3600,
    series,
    format: (value) => amount(value),
  });
  const unpriced = cost.unpriced ? ` ${count(cost.unpriced)} ${cost.unpriced === 1 ? "job" : "jobs"} ran on machines without a price.` : "";
  setText(byId("cost-note"), `By the connection's prices, each second where it was run${cost.seconds > 3600 ? "; days are UTC's" : ""}.${unpriced}`);
}

function showWaits() {
  const phase = (found, name) => make("td", { class: "number" }, found ? duration(found[name]) : "–");
  const rows = report.waits.map((row) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, row.machine),
      make("td", { class: "number" }, count(row.jobs)),
      phase(row.queue, "p50"),
      phase(row.queue, "p95"),
      phase(row.prepare, "p50"),
      phase(row.prepare, "p95"),
    ),
  );
  fill("waits", ["Machine", "#Jobs", "#Queue p50", "#Queue p95", "#Prepare p50", "#Prepare p95"], rows, `No job left the queue in ${WINDOWS[windowName()]}.`);
}

function showFailures() {
  const all = report.failures.reduce((sum, row) => sum + row.jobs, 0);
  const most = Math.max(1, ...report.failures.map((row) => row.jobs));
  const rows = report.failures.map((row) => {
    const bar = make("span", { class: "share" });
    bar.style.width = `${(row.jobs / most) * 100}%`;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, row.title, bar),
      make("td", { class: "number" }, count(row.jobs)),
      make("td", { class: "number" }, percent(row.jobs / all)),
      make("td", {}, jobLink(row.latest.id), make("div", { class: "below" }, ago(new Date(row.latest.endTime * 1000)))),
    );
  });
  fill("failures", ["Cause", "#Jobs", "#Share", "Last"], rows, `No job failed in ${WINDOWS[windowName()]}.`);
}

function showModels() {
  const rows = report.models.map((model) => {
    const age = model.ageSeconds === null ? "never" : duration(model.ageSeconds);
    const limit = model.limitSeconds === null ? "no limit" : `limit ${duration(model.limitSeconds)}`;
    const state = model.limitSeconds === null ? "" : model.isOverdue ? "overdue" : "in time";
    const tried = model.latest && !model.latest.good;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, model.model),
      make("td", { class: "number" }, make("span", { class: model.isOverdue ? "bad-text" : null }, age), make("div", { class: "below" }, limit)),
      make("td", {}, make("span", { class: model.isOverdue ? "bad-text" : "good-text" }, state)),
      make(
        "td",
        {},
        model.lastGood ? jobLink(model.lastGood.id) : make("span", { class: "quiet-text" }, "no job succeeded yet"),
        tried ? make("div", { class: "below" }, "since then failed: ", jobLink(model.latest.id)) : null,
      ),
    );
  });
  fill("models", ["Model", "#Age", "State", "Job"], rows, "No job has the label model. Put it on the job that trains, like labels={\"model\": \"digits\"}.");
}

function showOrphans() {
  if (orphans.problem) {
    byId("orphans").replaceChildren(make("p", { class: "none" }, `Orphans cannot be looked for: ${orphans.problem.message}`));
    return;
  }
  const rows = orphans.jobs.map((job) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, jobLink(job.id), make("div", { class: "below" }, job.why)),
      make("td", {}, make("span", { class: job.isOrphan ? "bad-text" : "quiet-text" }, job.isOrphan ? "orphan" : "unknown")),
      make("td", {}, make("span", { class: "state", "data-state": job.state }, make("span", { class: "dot" }), title(job.state))),
      make("td", { class: "number" }, job.createTime ? ago(new Date(job.createTime * 1000)) : ""),
    ),
  );
  fill("orphans", ["Job", "Verdict", "State", "#Created"], rows, "Every job that goes on has a task that looks after it.");
  const dag = orphans.maintenanceDag;
  const more = orphans.total > rows.length ? `${count(orphans.total - rows.length)} more are not shown. ` : "";
  byId("orphans-note").replaceChildren(
    `${more}Jobs that go on though no task of this Airflow waits for them. `,
    ...(dag ? ["The DAG ", airflowLink(`/dags/${encodeURIComponent(dag)}`, dag), " cancels orphans, and leaves the unknown alone."] : []),
  );
}

/** A table with `heads` ("#" before a column of numbers) into the box `id`, or a sentence where there are no rows. */
function fill(id, heads, rows, none) {
  const box = byId(id);
  if (!rows.length) {
    box.replaceChildren(make("p", { class: "none" }, none));
    return;
  }
  const focus = box.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const head = heads.map((text) =>
    make("th", { scope: "col", class: text.startsWith("#") ? "number" : null }, text.replace("#", "")),
  );
  const table = make("table", { "aria-labelledby": `${id}-title` }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  box.replaceChildren(make("div", { class: "table-box", tabindex: 0, role: "group", "aria-labelledby": `${id}-title` }, table));
  if (focus) box.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
}

const past = () => ({ times: report.times, seconds: report.times.length > 1 ? report.times[1] - report.times[0] : 600, until: report.until });
const jobLink = (id) => make("a", { href: pageAddress(`jobs/${encodeURIComponent(id)}`) }, id);
const title = (state) => state[0] + state.slice(1).toLowerCase();

/** Average over the window; the last bucket is shorter than the others. */
function weighted(values) {
  const { times, seconds, until } = past();
  let sum = 0;
  values.forEach((value, place) => {
    sum += value * Math.min(seconds, until - times[place]);
  });
  return sum / Math.max(until - times[0], 1);
}

function at(peaks) {
  const most = Math.max(0, ...peaks);
  if (!most) return "";
  const time = new Date(report.times[peaks.indexOf(most)] * 1000);
  return `, on ${time.toLocaleString("en", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" })}`;
}

/** Three significant digits: "0.25", "12.5", "1,234". */
function short(value) {
  if (Math.abs(value) >= 1000) return count(Math.round(value));
  if (value > 0 && value < 0.005) return "less than 0.01";
  return String(Number(value.toPrecision(3)));
}

function amount(value) {
  return value >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(value >= 1 ? 4 : 2)));
}

function percent(share) {
  if (share > 0 && share < 0.0005) return "less than 0.1 %";
  return share > 0 && share < 0.1 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

/** Make a choice part of the address, and show what it leads to. */
function choose(name, value, fallback) {
  const wanted = query();
  if (value === fallback) wanted.delete(name);
  else wanted.set(name, value);
  setAddress(wanted);
}

byId("window").addEventListener("change", (event) => {
  choose("window", event.target.value, "24h");
  report = null;
  byId("fleet").setAttribute("aria-busy", "true");
  load();
});
byId("cost-by").addEventListener("change", (event) => {
  choose("by", event.target.value, "dag");
  load();
});
byId("use-kind").addEventListener("change", (event) => {
  choose("kind", event.target.value, "cpus");
  showUse();
});
addEventListener("popstate", () => {
  if (report) showUse(); // what kind of room is shown is the page's own choice, not the server's
  load();
});

load();
loadOrphans();
live((version) => {
  newest = version ?? newest;
  loadSoon();
});
setInterval(() => {
  if (!document.hidden) loadSoon();
}, LOOK_MILLISECONDS);
setInterval(() => {
  if (!document.hidden) loadOrphans();
}, ORPHANS_MILLISECONDS);

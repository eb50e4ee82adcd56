// The trials of a study: a table to sort, and two plots, whose renderer is loaded when one is opened.
import { byId, make, setText } from "./dom.js";
import { duration, money } from "./format.js";
import { stateName } from "./job_parts.js";
import { api, showProblem } from "./shell.js";
import { colour } from "./curves.js";
import { late } from "./late.js";

const VIEWS = { table: "Table", "best-so-far": "Best so far", "parallel-coordinates": "Parallel coordinates" };
let shown = null;
let jobId = "";
let version = "";
let view = "table";
let order = { column: "id", isDown: false };
let figure = null;

/** Show the study of `id` (see trials_view); `newest` is the version of the service's jobs that it is of. */
export function showTrials(id, study, newest) {
  byId("trials").hidden = !study;
  if (!study) return;
  jobId = id;
  const isSame = shown && JSON.stringify(shown) === JSON.stringify(study);
  shown = study;
  version = newest;
  const ended = study.trials.filter((trial) => trial.endTime).length;
  setText(byId("trials-count"), `${ended} of ${study.most} ended; ${study.metric}: ${study.goal === "MINIMIZE" ? "lower" : "higher"} is better`);
  offerViews();
  if (isSame) return;
  if (view === "table") showTable();
  else showPlot();
}

function offerViews() {
  const group = byId("trials-views");
  if (group.childElementCount) return;
  group.append(
    ...Object.entries(VIEWS).map(([name, text]) =>
      make("button", { type: "button", "aria-pressed": String(name === view), "data-view": name, onclick: () => choose(name) }, text),
    ),
  );
}

function choose(name) {
  view = name;
  for (const button of byId("trials-views").children) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  byId("trials-table").hidden = name !== "table";
  byId("trials-plot").hidden = name === "table";
  if (name === "table") showTable();
  else showPlot();
}

/** Columns: name, title, what a cell shows, what it is sorted by. */
function columns() {
  const metric = shown.metric;
  return [
    { name: "id", title: "Trial", text: (trial) => trial.id, key: (trial) => Number(trial.id) },
    { name: "state", title: "State", text: (trial) => (trial.isStoppedEarly ? "Stopped early" : stateName(trial.state)) },
    { name: "objective", title: metric, isNumber: true, text: (trial) => figureOf(trial.objective), key: (trial) => trial.objective },
    { name: "step", title: "Step", isNumber: true, text: (trial) => trial.step ?? "–", key: (trial) => trial.step },
    ...shown.parameters.map((name) => ({
      name: `p-${name}`,
      title: name,
      isNumber: shown.trials.every((trial) => !(name in trial.parameters) || Number.isFinite(Number(trial.parameters[name]))),
      text: (trial) => shorten(trial.parameters[name]),
      key: (trial) => parse(trial.parameters[name]),
    })),
    { name: "seconds", title: "Time", isNumber: true, text: (trial) => duration(trial.seconds), key: (trial) => trial.seconds },
    ...(shown.currency === null
      ? []
      : [{ name: "cost", title: "Cost", isNumber: true, text: (trial) => (trial.cost === null ? "–" : money(trial.cost, shown.currency)), key: (trial) => trial.cost }]),
  ];
}

const figureOf = (value) => (value === null ? "–" : String(Number(value.toPrecision(6))));

function shorten(text) {
  const value = Number(text);
  return text !== undefined && text !== "" && Number.isFinite(value) ? figureOf(value) : (text ?? "–");
}

function parse(text) {
  const value = Number(text);
  return text !== undefined && text !== "" && Number.isFinite(value) ? value : (text ?? null);
}

function sorted(column) {
  const key = column.key ?? column.text;
  const sign = order.isDown ? -1 : 1;
  return [...shown.trials].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1; // what there is not comes last, up or down
    if (y === null || y === undefined) return -1;
    if (x === y) return Number(a.id) - Number(b.id);
    return (x < y ? -1 : 1) * sign;
  });
}

function showTable() {
  const all = columns();
  const by = all.find((column) => column.name === order.column) ?? all[0];
  const focused = document.activeElement?.dataset?.sort;
  const head = all.map((column) =>
    make(
      "th",
      { scope: "col", class: column.isNumber ? "number" : null, "aria-sort": column === by ? (order.isDown ? "descending" : "ascending") : null },
      make("button", { type: "button", class: "sort", "data-sort": column.name, onclick: () => sortBy(column) }, column.title),
    ),
  );
  const rows = sorted(by).map((trial) =>
    make(
      "tr",
      { "data-best": trial.id === shown.best },
      ...all.map((column, index) => {
        const attributes = { class: column.isNumber ? "number" : null };
        if (column.name === "state") {
          return make("td", attributes, make("span", { class: "state", "data-state": trial.state }, make("span", { class: "dot" }), column.text(trial)));
        }
        const best = index === 0 && trial.id === shown.best ? make("span", { class: "badge" }, "best") : null;
        return make(index ? "td" : "th", index ? attributes : { scope: "row" }, String(column.text(trial)), best);
      }),
    ),
  );
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  byId("trials-table").replaceChildren(table);
  if (focused) byId("trials-table").querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
}

function sortBy(column) {
  // A metric is looked at from its good end.
  const isDownFirst = column.name === "objective" && shown.goal !== "MINIMIZE";
  order = { column: column.name, isDown: order.column === column.name ? !order.isDown : isDownFirst };
  showTable();
}

async function showPlot() {
  const name = view;
  const place = byId("trials-plot");
  if (!figure) place.replaceChildren(make("p", { class: "quiet-text" }, "Drawing …"));
  try {
    const [specification, renderer] = await Promise.all([api(`jobs/${encodeURIComponent(jobId)}/plots/${name}`, { version }), vega()]);
    if (name !== view) return;
    const target = make("div", { class: "vega" });
    const box = make("div", { class: "scroll", tabindex: "0", role: "img", "aria-label": `${VIEWS[name]}: ${describe()}` }, target);
    const { vega: v, vegaLite, expressionInterpreter } = renderer;
    const runtime = v.parse(vegaLite.compile(themed(specification)).spec, {}, { ast: true });
    // Its expressions are walked through, not compiled: the policy of the page allows no code made from text.
    const next = new v.View(runtime, { expr: expressionInterpreter, renderer: "canvas", container: target, hover: true });
    await next.runAsync();
    if (name !== view) return next.finalize();
    figure?.finalize();
    figure = next;
    place.replaceChildren(box);
  } catch (problem) {
    showProblem(problem.advice ? problem : { message: `The plot cannot be drawn: ${problem.message}`, advice: "The table has the same trials." });
  }
}

function describe() {
  const best = shown.trials.find((trial) => trial.id === shown.best);
  return best ? `${shown.trials.length} trials, the best is trial ${best.id} with ${shown.metric} ${figureOf(best.objective)}` : `${shown.trials.length} trials`;
}

async function vega() {
  // In this order: each takes what the one before it left in `globalThis`.
  await late("./vendor/vega.js");
  await late("./vendor/vega-lite.js");
  const { expressionInterpreter } = await late("./vendor/vega-interpreter.js");
  return { vega: globalThis.vega, vegaLite: globalThis.vegaLite, expressionInterpreter };
}

/** The specification in the page's colours: it is written for white paper. */
function themed(specification) {
  const isDark = document.documentElement.dataset.theme === "dark";
  const [text, soft, line, ground] = ["--text", "--soft", "--line", "--ground"].map(colour);
  const inks = { white: ground, "#333": text, "#444": text, "#666": soft, "#8a8a8a": soft, "#2b6ca3": colour("--chart-1"), "#d95f02": colour("--chart-2") };
  const recoloured = (value, key) => {
    if (Array.isArray(value)) return value.map((item) => recoloured(item, key));
    if (value && typeof value === "object") {
      if (key === "scheme" && isDark) return { ...value, extent: [0.85, 0.05] }; // light stands out
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, name === "data" ? item : recoloured(item, name)]));
    }
    return typeof value === "string" && value in inks && key !== "title" ? inks[value] : value;
  };
  const axis = { labelColor: soft, titleColor: text, gridColor: line, domainColor: line, tickColor: line };
  const config = { axis, legend: { labelColor: text, titleColor: text }, title: { color: text, subtitleColor: soft }, text: { color: text } };
  return { ...recoloured(specification), background: "transparent", config: { ...specification.config, ...config } };
}

document.addEventListener("themechange", () => {
  if (figure && view !== "table") showPlot();
});

// Metrics and resources of a job, as charts and, for resources, a table.
import { MOST_NAMED, colour, draw } from "./curves.js";
import { byId, make } from "./dom.js";
import { bytes } from "./format.js";

/** A limit is drawn where the peak comes this near to it; a line far above would flatten the curves. */
const NEAR_LIMIT = 0.25;

const number = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(5))));
/** Distances between the ticks of an axis of bytes. */
const BYTE_STEPS = Array.from({ length: 45 }, (_, power) => 2 ** power);
const cores = (value) => `${Number(value.toPrecision(3))}`;
/** What is sampled; only jobs with GPUs have the last two. */
const KINDS = [
  { name: "CPU", title: "CPU, cores", values: "cpu", peak: "cpuPeak", limit: "cpuLimit", unit: cores },
  { name: "Memory", title: "Memory", values: "memory", peak: "memoryPeak", limit: "memoryLimit", unit: bytes, steps: BYTE_STEPS },
  { name: "GPU", title: "GPUs, busy", values: "gpus", peak: "gpusPeak", limit: "gpuLimit", unit: cores },
  { name: "GPU memory", title: "GPU memory", values: "gpuMemory", peak: "gpuMemoryPeak", unit: bytes, steps: BYTE_STEPS },
];

/** Show metrics (see curves_view); `best`: id of the best trial; `isLive`: more may come. */
export function showCurves(metrics, best, isLive) {
  const box = byId("curves");
  const nothing = byId("curves-nothing");
  nothing.hidden = metrics.length > 0;
  nothing.textContent = isLive
    ? "No metric was reported yet. What the trainer reports through cloudml-hypertune appears here as curves."
    : "The trainer reported no metric. What it reports through cloudml-hypertune appears here as curves.";
  const places = placesFor(box, metrics.map((metric) => metric.tag));
  metrics.forEach((metric, index) => {
    const curves = metric.curves.map((curve) => ({
      name: curve.trial ? `trial ${curve.trial}` : metric.tag,
      ...axisOf(curve, metric.curves),
      y: curve.values,
      strong: metric.curves.length === 1 || curve.trial === best,
    }));
    const isTime = metric.curves.every((curve) => new Set(curve.steps).size <= 1) && metric.curves.some((curve) => curve.times.length > 1);
    const last = metric.curves.map((curve) => curve.values.at(-1)).filter((value) => value !== null && value !== undefined);
    const newest = last.length ? `newest ${number(last.at(-1))}` : "no number yet";
    const which = curves.length > MOST_NAMED && best ? `, trial ${best} strong` : "";
    draw(places[index], {
      title: metric.isObjective ? `${metric.tag} (what the study looks for${which})` : metric.tag,
      said: `${metric.tag} over ${isTime ? "time" : "training steps"}, ${curves.length === 1 ? newest : `${curves.length} trials`}`,
      isTime,
      unit: number,
      curves,
    });
  });
}

/** Steps, but where a trainer gives all reports the same one: times. */
function axisOf(curve, all) {
  const hasSteps = all.some((one) => new Set(one.steps).size > 1);
  return { x: hasSteps || curve.times.length < 2 ? curve.steps : curve.times };
}

/** Show the use of cores, memory and GPUs by replica (see usage_view). */
export function showUsage(series, isLive) {
  const used = series.filter((one) => one.times.length);
  const nothing = byId("usage-nothing");
  nothing.hidden = used.length > 0;
  nothing.textContent = isLive ? "No sample was taken yet." : "No sample was taken: it ran too short, or nobody samples where it ran.";
  byId("usage-table").hidden = !used.length;
  const kinds = KINDS.filter((kind) => used.some((one) => one[kind.values]));
  const places = placesFor(byId("usage"), kinds.map((kind) => kind.values));
  if (!used.length) return;
  kinds.forEach((kind, index) => {
    const limits = new Set(used.map((one) => one[kind.limit]).filter(Boolean));
    const peak = Math.max(...used.map((one) => one[kind.peak] ?? 0));
    const curves = used.filter((one) => one[kind.values]).map((one) => ({ name: nameOf(one), x: one.times, y: one[kind.values] }));
    const near = [...limits].filter((limit) => peak >= limit * NEAR_LIMIT);
    for (const limit of near.slice(0, 3)) {
      const times = used.flatMap((one) => [one.times[0], one.times.at(-1)]);
      const line = [Math.min(...times), Math.max(...times)];
      curves.push({ name: `limit ${kind.unit(limit)}`, x: line, y: [limit, limit], dashed: true, colour: colour("--danger") });
    }
    const told = limits.size && !near.length ? ` (limit ${[...limits].map(kind.unit).join(", ")})` : "";
    draw(places[index], {
      title: kind.title + told,
      said: `${kind.title} of ${used.length} replicas over time; the table below has the figures`,
      isTime: true,
      fromZero: true,
      top: near.length ? Math.max(...near) : null,
      unit: kind.unit,
      steps: kind.steps,
      curves,
    });
  });
  fillTable(used, kinds);
}

const nameOf = (one) => (one.trial ? `trial ${one.trial} ${one.replica}` : one.replica);

function fillTable(used, kinds) {
  const head = ["Replica", ...kinds.flatMap(({ name, limit }) => [`${name} now`, `${name} peak`, ...(limit ? [`${name} limit`] : [])])];
  const share = (value, limit) => (limit ? ` (${Math.round((value / limit) * 100)} %)` : "");
  const shown = (value, unit) => (value === null || value === undefined ? "–" : unit(value));
  const rows = used.map((one) => [
    nameOf(one),
    ...kinds.flatMap(({ values, peak, limit, unit }) => [
      shown(one[values]?.at(-1), unit),
      shown(one[peak], unit) + share(one[peak], one[limit]),
      ...(limit ? [shown(one[limit], unit)] : []),
    ]),
  ]);
  byId("usage-table").replaceChildren(
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...head.map((text, index) => make("th", { scope: "col", class: index ? "number" : null }, text)))),
      make(
        "tbody",
        {},
        ...rows.map(([name, ...cells]) =>
          make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((text) => make("td", { class: "number" }, text))),
        ),
      ),
    ),
  );
}

/** A place a name, kept from the last time, so that charts are changed and not made anew. */
function placesFor(box, names) {
  const present = new Map([...box.children].map((child) => [child.dataset.name, child]));
  const places = names.map((name) => present.get(name) ?? make("div", { class: "chart-place", "data-name": name }));
  if (places.length !== box.children.length || places.some((place, index) => box.children[index] !== place)) box.replaceChildren(...places);
  return places;
}

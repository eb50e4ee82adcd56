// Curves over time or steps, by uPlot, which is loaded when there is something to draw.
import { make } from "./dom.js";
import { late } from "./late.js";

const HEIGHT = 220;
/** More curves than this have no legend of their own: they are thin, and the best is strong. */
export const MOST_NAMED = 8;
const drawn = new Map();

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Draw a chart into `place`, anew or in place of what it has.
 * `chart`: { title, said (for those who do not see it), isTime, unit(value), steps (between ticks), fromZero, top,
 * curves: [{ name, x, y, strong, dashed, colour }] }
 */
export async function draw(place, chart) {
  let Plot;
  try {
    Plot = (await late("./vendor/uplot.js")).default;
  } catch (problem) {
    // With the next look at the job it is tried again.
    place.replaceChildren(make("h3", {}, chart.title), make("p", { class: "quiet-text" }, `The chart cannot be drawn: ${problem.message}`));
    return;
  }
  const shape = JSON.stringify([chart.curves.map((curve) => curve.name), chart.title]);
  const before = drawn.get(place);
  const data = aligned(Plot, chart.curves);
  if (before && before.shape === shape && before.theme === document.documentElement.dataset.theme) {
    before.chart = chart;
    before.figure.setAttribute("aria-label", chart.said);
    // A legend under the pointer keeps its place: only the data change.
    before.plot.setData(data);
    return;
  }
  before?.observer.disconnect();
  before?.plot.destroy();
  const target = make("div", { class: "chart-canvas" });
  const figure = make("div", { class: "chart", role: "img", "aria-label": chart.said }, target);
  place.replaceChildren(make("h3", {}, chart.title), figure);
  const state = { shape, chart, figure, theme: document.documentElement.dataset.theme };
  state.plot = new Plot(options(Plot, state, place.clientWidth), data, target);
  state.observer = new ResizeObserver(() => {
    if (place.clientWidth) state.plot.setSize({ width: place.clientWidth, height: HEIGHT });
  });
  state.observer.observe(place);
  drawn.set(place, state);
}

document.addEventListener("themechange", () => {
  for (const [place, state] of drawn) {
    if (place.isConnected) draw(place, state.chart);
  }
});

/** One list of x for all curves; a curve has null where it has no value. */
function aligned(Plot, curves) {
  if (!curves.length) return [[], []];
  return Plot.join(curves.map((curve) => ascending(curve.x, curve.y)));
}

/** uPlot wants ascending x; a trainer that went on from a checkpoint reports steps again, and the later value counts. */
function ascending(x, y) {
  const values = new Map();
  x.forEach((at, place) => values.set(at, y[place]));
  const sorted = [...values.keys()].sort((a, b) => a - b);
  return [sorted, sorted.map((at) => values.get(at))];
}

function options(Plot, state, width) {
  const { chart } = state;
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px sans-serif" };
  const isNamed = chart.curves.length <= MOST_NAMED;
  const ofTime = { values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step)), space: 70 };
  return {
    width: Math.max(width, 200),
    height: HEIGHT,
    legend: { show: isNamed, live: isNamed },
    cursor: { points: { size: 7 }, focus: { prox: 24 } },
    focus: { alpha: isNamed ? 0.4 : 0.25 },
    scales: {
      x: { time: Boolean(chart.isTime) },
      // The limit is part of the picture where it is near enough to matter.
      y: { range: (_, low, high) => range(Plot, state.chart, low, high) },
    },
    axes: [
      chart.isTime ? { ...axis, ...ofTime } : axis,
      { ...axis, size: 74, ...(chart.steps ? { incrs: chart.steps } : {}), values: (_, ticks) => ticks.map((tick) => chart.unit(tick)) },
    ],
    series: [
      { label: chart.isTime ? "Time" : "Step", value: (_, at) => (at === null || at === undefined ? "–" : chart.isTime ? clock(at, 1) : at) },
      ...chart.curves.map((curve, place) => ({
        label: curve.name,
        stroke: curve.colour ?? colour(isNamed || curve.strong ? `--chart-${(place % 8) + 1}` : "--chart-8"),
        width: curve.strong ? 2.5 : isNamed ? 1.75 : 1,
        dash: curve.dashed ? [6, 4] : undefined,
        alpha: isNamed || curve.strong || curve.dashed ? 1 : 0.45,
        spanGaps: true,
        points: { show: curve.x.length === 1 ? true : undefined, size: 5 },
        value: (_, value) => (value === null || value === undefined ? "–" : chart.unit(value)),
      })),
    ],
  };
}

/** "21:06" or, where ticks are nearer than minutes, "21:06:16"; of ticks a day apart the date. */
function clock(seconds, step) {
  const time = new Date(seconds * 1000);
  if (step >= 86400) return time.toLocaleDateString("en-CA");
  return time.toLocaleTimeString("sv-SE", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
}

function range(Plot, chart, low, high) {
  if (low === null || low === undefined) return [0, chart.top ?? 1];
  const bottom = chart.fromZero ? 0 : low;
  const top = chart.top ? Math.max(high, chart.top) : high;
  if (top === bottom) return [bottom - Math.abs(bottom || 1) * 0.1, top + Math.abs(top || 1) * 0.1];
  const room = (top - bottom) * 0.06;
  return [chart.fromZero ? 0 : bottom - room, top + room];
}

// Charts of values over time: a drawing (uPlot), its figures as a legend, keys to move along it, and a table of all values.
import uPlot from "./vendor/uplot.js";
import { make, setText } from "./dom.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A chart inside `box`. Give it data with show({
 *   title, summary,                what it shows, in words
 *   times, seconds, until,         start of each bucket, its length, end of the last; in seconds since the epoch
 *   series: [{ name, values, colour: "--chart-1", style: "area" | "line" | "dashed" | "bar" }],
 *   format,                        number -> text
 *   utc,                           whether times are shown in UTC
 * }). Bars are stacked.
 */
export class Chart {
  constructor(box) {
    this.summary = make("p", { class: "summary" });
    this.plot = make("div", { class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart" });
    this.legend = make("ul", { class: "legend" });
    this.status = make("p", { class: "hidden-text", role: "status" });
    this.table = make("div", { class: "table-box", tabindex: 0, role: "group" });
    this.details = make("details", {}, make("summary", {}, "All values as a table"), this.table);
    this.details.addEventListener("toggle", () => this.fillTable());
    box.replaceChildren(this.summary, this.plot, this.legend, this.status, this.details);
    this.plot.addEventListener("keydown", (event) => this.move(event));
    this.plot.addEventListener("blur", () => this.uplot?.setCursor({ left: -10, top: -10 }));
    document.addEventListener("themechange", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  show(data) {
    this.data = data;
    setText(this.summary, data.summary);
    this.plot.setAttribute("aria-label", `${data.title}. ${data.summary} The arrow keys move along the time.`);
    this.table.setAttribute("aria-label", `${data.title}, all values`);
    this.draw();
    this.fillTable();
  }

  draw() {
    if (!this.data) return;
    const { times, series, utc } = this.data;
    this.uplot?.destroy();
    this.place = null;
    const bars = series.filter((each) => each.style === "bar");
    // What is stacked is drawn from the highest sum down, so that each part covers what is not its own.
    const sums = stack(bars);
    const drawn = bars.length ? bars.map((_, place) => place).reverse() : series.map((_, place) => place);
    const soft = colour("--soft");
    const axis = {
      stroke: soft,
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1, size: 4 },
      font: "12px system-ui, sans-serif",
    };
    const ends = [...times, this.data.until];
    const options = {
      width: this.plot.clientWidth || 300,
      height: this.plot.clientHeight || 200,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => [ends[0], Math.max(ends[ends.length - 1], ends[0] + 1)] },
        y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] },
      },
      axes: [
        { ...axis, values: timeLabels(utc), space: 70, size: (_, texts) => (texts?.some((text) => text?.includes("\n")) ? 46 : 30) },
        { ...axis, size: 56, values: (_, splits) => splits.map((value) => this.data.format(value, true)) },
      ],
      series: [
        {},
        ...drawn.map((place) => {
          const { style, colour: name } = series[place];
          const stroke = colour(name);
          if (style === "bar") {
            return { stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.82, 60], align: 1 }), points: { show: false } };
          }
          return {
            stroke,
            width: style === "area" ? 1.5 : 1.25,
            fill: style === "area" ? `${stroke}33` : undefined,
            dash: style === "dashed" ? [6, 4] : undefined,
            paths: uPlot.paths.stepped({ align: 1 }),
            points: { show: false },
          };
        }),
      ],
      hooks: { setCursor: [(chart) => this.point(chart.cursor.idx)] },
    };
    if (utc) options.tzDate = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
    // The last bucket goes until now: a step needs its end, a bar does not.
    const isSteps = !bars.length;
    const xs = isSteps ? ends : times;
    const values = drawn.map((place) => (bars.length ? sums[place] : [...series[place].values, series[place].values.at(-1)]));
    this.uplot = new uPlot(options, [xs, ...values], this.plot);
    this.point(null);
  }

  resize() {
    if (this.uplot && this.plot.clientWidth) {
      this.uplot.setSize({ width: this.plot.clientWidth, height: this.plot.clientHeight });
    }
  }

  /** Show the values of one bucket beside their names; null: of none. */
  point(index) {
    const { times, series, format } = this.data;
    const place = index === null || index === undefined ? null : Math.min(index, times.length - 1);
    const key = `${place}`;
    if (this.place === key) return;
    this.place = key;
    const parts = series.map((each) =>
      make(
        "li",
        {},
        swatch(each),
        make("span", {}, each.name),
        make("b", {}, place === null ? (each.total ?? "") : format(each.values[place])),
      ),
    );
    if (place !== null) parts.unshift(make("li", { class: "at" }, this.stretch(place)));
    this.legend.replaceChildren(...parts);
  }

  stretch(place) {
    const { times, seconds, until, utc } = this.data;
    const zone = utc ? { timeZone: "UTC" } : {};
    const start = new Date(times[place] * 1000);
    const end = new Date(Math.min(times[place] + seconds, until) * 1000);
    const day = start.toLocaleDateString("en", { ...zone, weekday: "short", day: "numeric", month: "short" });
    if (seconds >= 86400) return utc ? `${day} (UTC)` : day;
    const clock = (time) => time.toLocaleTimeString("en", { ...zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return `${day}, ${clock(start)}–${clock(end)}${utc ? " UTC" : ""}`;
  }

  move(event) {
    const { times, series, format } = this.data ?? {};
    if (!times?.length) return;
    const last = times.length - 1;
    const now = this.place === "null" ? null : Number(this.place);
    const place = {
      ArrowLeft: now === null ? last : Math.max(now - 1, 0),
      ArrowRight: now === null ? 0 : Math.min(now + 1, last),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape") this.uplot.setCursor({ left: -10, top: -10 });
    if (place === undefined) return;
    event.preventDefault();
    this.uplot.setCursor({ left: this.uplot.valToPos(times[place], "x") + 0.5, top: 10 });
    this.point(place);
    const words = series.map((each) => `${each.name} ${format(each.values[place])}`);
    setText(this.status, `${this.stretch(place)}: ${words.join(", ")}`);
  }

  fillTable() {
    if (!this.details.open || !this.data) return;
    const { title, times, series, format } = this.data;
    const head = make(
      "tr",
      {},
      make("th", { scope: "col" }, "Time"),
      ...series.map((each) => make("th", { scope: "col", class: "number" }, each.name)),
    );
    const rows = times
      .map((_, place) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, this.stretch(place)),
          ...series.map((each) => make("td", { class: "number" }, format(each.values[place]))),
        ),
      )
      .reverse();
    const caption = make("caption", { class: "hidden-text" }, title);
    this.table.replaceChildren(make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...rows)));
  }
}

function stack(bars) {
  const sums = [];
  for (const bar of bars) {
    const below = sums.at(-1);
    sums.push(bar.values.map((value, place) => value + (below ? below[place] : 0)));
  }
  return sums;
}

function swatch(each) {
  const element = make("span", { class: "swatch", "data-line": each.style === "line" || each.style === "dashed" });
  element.style.background = `var(${each.colour})`;
  return element;
}

function timeLabels(utc) {
  const zone = utc ? { timeZone: "UTC" } : {};
  return (_, splits) => {
    const step = splits.length > 1 ? splits[1] - splits[0] : 86400;
    let day = null;
    return splits.map((seconds) => {
      const time = new Date(seconds * 1000);
      const date = time.toLocaleDateString("en", { ...zone, day: "numeric", month: "short" });
      if (step >= 86400) return date;
      const clock = time.toLocaleTimeString("en", { ...zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
      const text = date === day ? clock : `${clock}\n${date}`;
      day = date;
      return text;
    });
  };
}

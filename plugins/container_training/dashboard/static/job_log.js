// The log of a job: the newest lines, older ones on request, and what comes in while one looks. The service filters and searches;
// the page never holds more than MOST lines, so that a log of any length is no burden.
import { byId, make, setText } from "./dom.js";
import { count } from "./format.js";
import { ROOT, api, connection, showProblem } from "./shell.js";

const MOST = 4000;
const POLL_MILLISECONDS = 1500;
const TYPING_MILLISECONDS = 300;
/** When so many pages have come in at once, the end of the log is read anew. */
const MOST_PAGES = 4;

export class JobLog {
  /** `jobId`: whose log. */
  constructor(jobId) {
    this.jobId = jobId;
    this.form = byId("log-form");
    this.box = byId("log-box");
    this.list = byId("log-lines");
    this.lines = [];
    this.keys = new Set();
    this.isLive = false;
    this.generation = 0;
    this.watch();
    this.load();
  }

  /** Offer replicas and trials to choose from. */
  offer(replicas, trials) {
    fill(this.form.elements.replica, [["", "all"], ...replicas.map((name) => [name, name]), ["service", "the service's own"]]);
    fill(this.form.elements.trial, [["", "all"], ...trials.map((id) => [id, id])]);
    this.form.querySelector("[data-trials]").hidden = !trials.length;
  }

  /** Whether more lines may come. */
  setLive(isLive) {
    const hasEnded = this.isLive && !isLive;
    this.isLive = isLive;
    if (hasEnded) this.poll(); // the last lines
    this.plan();
  }

  query() {
    const { replica, trial, severity, search } = this.form.elements;
    const pairs = { replica: replica.value, trial: trial.value, severity: severity.value, search: search.value.trim() };
    return new URLSearchParams(Object.entries(pairs).filter(([, value]) => value));
  }

  path(name) {
    return `jobs/${encodeURIComponent(this.jobId)}/${name}`;
  }

  watch() {
    let typing = null;
    this.form.addEventListener("input", (event) => {
      clearTimeout(typing);
      typing = setTimeout(() => this.load(), event.target.type === "search" ? TYPING_MILLISECONDS : 0);
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    byId("log-newest").addEventListener("click", () => this.load());
    byId("log-older").addEventListener("click", () => this.loadOlder());
    document.addEventListener("visibilitychange", () => this.plan());
    this.box.addEventListener("scroll", () => {
      if (this.isPaused && this.isAtEnd()) this.load();
    });
  }

  isAtEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 30;
  }

  /** Show the end of the log. */
  async load() {
    const mine = ++this.generation;
    const query = this.query();
    const all = new URLSearchParams(query);
    if (connection() !== "training_default") all.set("conn_id", connection());
    byId("log-download").href = `${ROOT}/api/${this.path("log.txt")}?${all}`;
    let answer;
    try {
      answer = await api(this.path("log"), query);
    } catch (problem) {
      if (mine === this.generation) showProblem(problem);
      return;
    }
    if (mine !== this.generation) return;
    this.lines = [];
    this.keys.clear();
    this.list.replaceChildren();
    this.cursor = answer.cursor;
    this.older = answer.next;
    this.isPaused = false;
    this.asked = query.get("search") ?? "";
    this.add(answer.lines);
    this.box.scrollTop = this.box.scrollHeight;
    this.say();
    this.plan();
  }

  async loadOlder() {
    const mine = this.generation;
    const first = this.list.firstElementChild;
    const before = first?.getBoundingClientRect().top ?? 0;
    const start = this.lines[0].time;
    let page = this.older;
    let answer;
    let hasNew = false;
    do {
      const query = this.query();
      if (!this.older) query.set("before", start);
      if (page) query.set("page", page);
      try {
        answer = await api(this.path("log"), query);
      } catch (problem) {
        showProblem(problem);
        return;
      }
      if (mine !== this.generation) return;
      hasNew = this.add(answer.lines);
      page = answer.next;
    } while (!hasNew && page); // lines of the very same moment are there already
    this.older = answer.next;
    this.isWhole = !answer.next || !hasNew;
    if (this.lines.length > MOST) {
      // Room is made at the other end: what is newer is read again when one goes there.
      for (const line of this.lines.splice(MOST)) this.drop(line);
      this.isPaused = true;
    }
    if (first) this.box.scrollTop += first.getBoundingClientRect().top - before; // what was looked at stays where it was
    this.say();
  }

  plan() {
    clearTimeout(this.timer);
    if (this.isLive && !document.hidden && !this.isPaused) this.timer = setTimeout(() => this.poll(), POLL_MILLISECONDS);
  }

  /** Ask for what was stored since the last time. */
  async poll() {
    if (this.isPaused) return;
    if (!this.cursor) return this.load(); // there was no line yet to go on from
    const mine = this.generation;
    const start = this.cursor;
    const wasAtEnd = this.isAtEnd();
    let page = "";
    try {
      for (let number = 0; number < MOST_PAGES; number += 1) {
        const query = this.query();
        query.set("after", start);
        if (page) query.set("page", page);
        const answer = await api(this.path("log"), query);
        if (mine !== this.generation) return;
        this.add(answer.lines);
        // Lines may be stored while the pages are read; only the first page is sure to have all before its newest one.
        if (number === 0) this.cursor = answer.cursor;
        page = answer.next;
        if (!page) break;
      }
    } catch (problem) {
      if (mine === this.generation) this.plan(); // the page itself says that nobody answers
      return;
    }
    if (page) return this.load();
    if (this.lines.length > MOST) {
      if (wasAtEnd) {
        for (const line of this.lines.splice(0, this.lines.length - MOST)) this.drop(line);
        this.older = "";
        this.isWhole = false;
      } else if (this.lines.length > 2 * MOST) {
        this.isPaused = true; // whoever reads up there is not to be disturbed
      }
    }
    if (wasAtEnd) this.box.scrollTop = this.box.scrollHeight;
    this.say();
    this.plan();
  }

  /** Put lines, oldest first, where they belong by time; whether one of them was new. */
  add(lines) {
    const fresh = lines.filter((line) => !this.keys.has(line.key));
    if (!fresh.length) return false;
    const isBefore = this.lines.length && fresh.at(-1).time <= this.lines[0].time;
    const isAfter = !this.lines.length || fresh[0].time >= this.lines.at(-1).time;
    for (const line of fresh) {
      this.keys.add(line.key);
      line.element = this.show(line);
    }
    const elements = fresh.map((line) => line.element);
    if (isAfter) {
      this.lines.push(...fresh);
      this.list.append(...elements);
    } else if (isBefore) {
      this.lines.unshift(...fresh);
      this.list.prepend(...elements);
    } else {
      for (const line of fresh) this.insert(line);
    }
    return true;
  }

  insert(line) {
    let place = this.lines.length;
    while (place > 0 && this.lines[place - 1].time > line.time) place -= 1;
    this.lines.splice(place, 0, line);
    this.list.insertBefore(line.element, this.list.children[place] ?? null);
  }

  drop(line) {
    this.keys.delete(line.key);
    line.element.remove();
  }

  show(line) {
    const who = line.trial && line.replica !== "service" ? `${line.trial} · ${line.replica}` : line.replica;
    return make(
      "div",
      { class: "line", "data-severity": line.severity },
      make("time", { datetime: line.time, title: line.time }, new Date(line.time).toLocaleTimeString("sv-SE")),
      make("span", { class: "who" }, who.replace("-replica-", " ")),
      make("span", { class: "said" }, ...this.marked(line.text)),
    );
  }

  /** The text, with what was searched for marked. */
  marked(text) {
    if (!this.asked) return [text];
    const parts = [];
    const low = text.toLowerCase();
    const wanted = this.asked.toLowerCase();
    let place = 0;
    for (let found = low.indexOf(wanted); found >= 0; found = low.indexOf(wanted, place)) {
      parts.push(text.slice(place, found), make("mark", {}, text.slice(found, found + wanted.length)));
      place = found + wanted.length;
    }
    return [...parts, text.slice(place)];
  }

  say() {
    const shown = this.lines.length;
    const isWhole = this.isWhole || (!this.older && this.lines.length < MOST && this.isWhole !== false);
    byId("log-older").hidden = isWhole || !shown;
    const what = this.asked || this.query().toString() ? "matching " : "";
    if (!shown) setText(byId("log-count"), what ? "no line matches" : "no line yet");
    else setText(byId("log-count"), `${isWhole ? "" : "the last "}${count(shown)} ${what}${shown === 1 ? "line" : "lines"}${this.isPaused ? ", paused" : ""}`);
  }
}

function fill(select, choices) {
  const wanted = JSON.stringify(choices);
  if (select.dataset.choices === wanted) return;
  const chosen = select.value;
  select.replaceChildren(...choices.map(([value, text]) => make("option", { value }, text)));
  select.dataset.choices = wanted;
  select.value = choices.some(([value]) => value === chosen) ? chosen : "";
}

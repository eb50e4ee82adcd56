// What every page has: the frame, the connection, questions to the server, live updates, and links into Airflow.
import { byId, make, setText } from "./dom.js";

/** Path under which the dashboard is mounted: "/training", with what a proxy puts before it. */
export const ROOT = document.documentElement.dataset.root;
const AIRFLOW = ROOT.replace(/\/training$/, "");
const ACTION_HEADER = "X-Training-Action";
/** Pause before a question that never arrived is asked once more. */
const AGAIN_MILLISECONDS = 300;

/** An answer that is not the one that was hoped for; `advice` says what to do. */
export class Problem extends Error {
  constructor(message, advice, status) {
    super(message);
    this.advice = advice;
    this.status = status;
  }
}

/** Name of the connection that the page is about. */
export function connection() {
  return new URLSearchParams(location.search).get("conn_id") ?? "training_default";
}

/**
 * Return the JSON of `path` below /training/api, about the page's connection.
 * `query`: URLSearchParams, or pairs. Throws a Problem, in plain words.
 */
export async function api(path, query = [], options = {}) {
  const parameters = new URLSearchParams(query);
  if (!parameters.has("conn_id")) parameters.set("conn_id", connection());
  const response = await send(`${ROOT}/api/${path}?${parameters}`, {
    ...options,
    headers: { Accept: "application/json", ...options.headers },
  });
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw new Problem(
    answer?.message ?? answer?.detail ?? `Airflow answered with status ${response.status}.`,
    answer?.advice ?? "The log of Airflow's API server says more.",
    response.status,
  );
}

/**
 * As fetch, but a request without an answer is sent once more: a browser drops all of them when the machine gets or loses a
 * network, and an engine on the same machine makes one for each job (net::ERR_NETWORK_CHANGED). All that is asked can be repeated.
 */
async function send(address, options) {
  for (let again = true; ; again = false) {
    try {
      return await fetch(address, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (!again) throw new Problem("Airflow does not answer.", "Is its API server running? The page asks again by itself.", 0);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
  }
}

/** Ask the server to do something that can be repeated; other sites' pages cannot send this header. */
export function act(path, query = []) {
  return api(path, query, { method: "POST", headers: { [ACTION_HEADER]: "1" } });
}

/** Show what is wrong above the page; null: nothing is any more. */
export function showProblem(problem) {
  const box = byId("problem");
  if (!problem) {
    box.hidden = true;
    return;
  }
  setText(byId("problem-message"), problem.message);
  const advice = byId("problem-advice");
  setText(advice, problem.advice ?? "");
  if (problem.status === 401) {
    const next = encodeURIComponent(location.pathname + location.search);
    advice.append(" ", make("a", { href: `${AIRFLOW}/auth/login?next=${next}` }, "Log in"));
  }
  box.hidden = false;
}

/** Ask in a dialog; resolves to true for yes. Escape, and the button that has the focus, mean no. */
export function ask({ title, text, yes, no }) {
  const dialog = byId("question");
  setText(byId("question-title"), title);
  setText(byId("question-text"), text);
  setText(byId("question-yes"), yes);
  setText(byId("question-no"), no);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Address of one of the dashboard's own pages, about the same connection. */
export function pageAddress(path, query = {}) {
  const parameters = new URLSearchParams(query);
  const conn = new URLSearchParams(location.search).get("conn_id");
  if (conn) parameters.set("conn_id", conn);
  const text = parameters.toString();
  return `${ROOT}/${path}${text ? `?${text}` : ""}`;
}

/** A link to a page of Airflow's own, such as "/dags/x/runs/y". */
export function airflowLink(path, text, attributes = {}) {
  return make("a", { ...attributes, href: AIRFLOW + path, onclick: openInAirflow }, text);
}

/** A link to another site, such as the object store, in a tab of its own: also from within Airflow's frame, which may open none. */
export function outsideLink(address, text, attributes = {}) {
  const open = (event) => {
    const outer = frame();
    if (!outer) return;
    event.preventDefault();
    const link = outer.document.createElement("a");
    Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer" });
    link.click();
  };
  return make("a", { ...attributes, href: address, target: "_blank", rel: "noopener noreferrer", onclick: open }, text);
}

// Airflow shows this page in a sandboxed frame that may neither open windows nor leave itself. But it is of the same origin: so it
// asks Airflow's own router to go there, as the back button would.
function openInAirflow(event) {
  const outer = frame();
  if (!outer || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  outer.history.pushState({ idx: (outer.history.state?.idx ?? 0) + 1, key: "training", usr: null }, "", event.currentTarget.href);
  outer.dispatchEvent(new PopStateEvent("popstate", { state: outer.history.state }));
}

/** Airflow's window if this page is shown in it, else null. */
function frame() {
  try {
    return window.parent !== window && window.parent.location.origin === location.origin ? window.parent : null;
  } catch {
    return null;
  }
}

/**
 * Make `query` (URLSearchParams) the page's address without loading it. Airflow's own address bar follows, so that what people copy
 * there shows the same.
 */
export function setAddress(query, { replace = false, state = null } = {}) {
  const text = query.toString();
  const address = location.pathname + (text ? `?${text}` : "");
  if (address === location.pathname + location.search && !state) return;
  if (replace) history.replaceState(state, "", address);
  else history.pushState(state, "", address);
  if (frame()) window.frameElement?.dispatchEvent(new Event("load"));
}

/**
 * Call `changed(version)` when the service's jobs changed, and at once when the page is shown again. One stream for a page that
 * is seen, none for one that is not: browsers allow six to a server.
 */
export function live(changed) {
  let source = null;
  let known = null;
  let ended = null;
  const say = (text, kind) => {
    const place = byId("live");
    setText(place, text);
    place.dataset.kind = kind;
  };
  const open = () => {
    clearTimeout(ended);
    source?.close();
    source = new EventSource(`${ROOT}/api/events?${new URLSearchParams({ conn_id: connection() })}`);
    source.addEventListener("version", (event) => {
      const wasTrouble = byId("live").dataset.kind === "trouble";
      say("Live", "live");
      if (event.data !== known || wasTrouble) {
        known = event.data;
        changed(known);
      }
    });
    source.addEventListener("trouble", (event) => {
      say("Not live", "trouble");
      showProblem(JSON.parse(event.data));
    });
    source.onerror = () => {
      // A stream that ends is opened again by the browser; one that is refused is not.
      if (source.readyState !== EventSource.CLOSED) return;
      say("Not live", "trouble");
      ended = setTimeout(open, 5000);
      changed(known);
    };
  };
  const follow = () => {
    if (document.hidden) {
      clearTimeout(ended);
      source?.close();
      source = null;
    } else if (!source) {
      open();
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}

async function offerConnections() {
  const select = byId("connection");
  const { connections } = await api("connections");
  const current = connection();
  const names = connections.includes(current) ? connections : [...connections, current];
  select.replaceChildren(...names.map((name) => make("option", { value: name, selected: name === current }, name)));
  byId("connection-choice").hidden = names.length < 2;
  select.addEventListener("change", () => {
    location.assign(`${location.pathname}?${new URLSearchParams({ conn_id: select.value })}`);
  });
}

for (const link of document.querySelectorAll("a[data-keep]")) {
  const conn = new URLSearchParams(location.search).get("conn_id");
  if (conn) link.search = new URLSearchParams({ conn_id: conn }).toString();
}
offerConnections().catch(showProblem);

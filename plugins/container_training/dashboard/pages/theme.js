// The theme of Airflow's own pages, before anything is painted. Airflow 3 (next-themes) keeps the choice under `theme` in the
// storage of this origin; without one, or with `system`, the system's wish counts.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let choice = null;
    try {
      choice = localStorage.getItem("theme");
    } catch {
      // storage is blocked: the system's wish
    }
    const dark = choice === "dark" || (choice !== "light" && system.matches);
    const theme = dark ? "dark" : "light";
    if (document.documentElement.dataset.theme !== theme) {
      document.documentElement.dataset.theme = theme;
      document.dispatchEvent(new CustomEvent("themechange", { detail: theme }));
    }
  };
  apply();
  system.addEventListener("change", apply);
  // Storage events come from the other documents of the origin: also from the page that frames this one.
  addEventListener("storage", (event) => {
    if (event.key === "theme" || event.key === null) apply();
  });
})();

// A script or a style that did not come leaves a page without life: it is loaded again, three times at most. Browsers drop requests when their
// machine gets or loses a network (net::ERR_NETWORK_CHANGED), and an engine on the same machine makes one for each job.
(() => {
  const MOST = 3;
  const key = "training-reloads";
  let isOver = false;
  addEventListener(
    "error",
    (event) => {
      const isStyle = event.target instanceof HTMLLinkElement && event.target.rel === "stylesheet";
      if (isOver || (!isStyle && !(event.target instanceof HTMLScriptElement))) return;
      isOver = true; // however many files are missing, it is one try
      try {
        const count = Number(sessionStorage.getItem(key) ?? 0);
        if (count >= MOST) return;
        sessionStorage.setItem(key, String(count + 1));
        document.documentElement.setAttribute("aria-busy", "true");
        setTimeout(() => location.reload(), 250 * 4 ** count);
      } catch {
        // storage is blocked, so nobody would count
      }
    },
    true,
  );
  addEventListener("load", () => setTimeout(() => document.querySelector("#live:not(:empty)") && sessionStorage.removeItem(key), 5000));
})();

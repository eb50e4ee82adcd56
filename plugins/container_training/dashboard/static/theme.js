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

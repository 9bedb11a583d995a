// @ts-check
// Loaded before anything is drawn, so that a page in dark colours does not flash white.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const chosen = localStorage.getItem("mosaic-theme");
    const theme = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("mosaic-theme"));
  };
  dark.addEventListener("change", apply);
  addEventListener("mosaic-choose-theme", apply);
  apply();
})();

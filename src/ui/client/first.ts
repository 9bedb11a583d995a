// A script of its own, loaded before anything is drawn.
import { requestEarly } from "./parts/early.ts";

// A page in dark colours must not flash white.
const dark = matchMedia("(prefers-color-scheme: dark)");
function apply(): void {
  const chosen = localStorage.getItem("mosaic-theme");
  document.documentElement.dataset.theme = chosen === "light" || chosen === "dark"
    ? chosen
    : dark.matches
    ? "dark"
    : "light";
  dispatchEvent(new Event("mosaic-theme"));
}
dark.addEventListener("change", apply);
addEventListener("mosaic-choose-theme", apply);
apply();
requestEarly();

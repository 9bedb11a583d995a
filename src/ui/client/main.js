// @ts-check
/** Picks the view by the address, and draws what every view shares. */
import { now, onConnection } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { mountCompare } from "./compare.js";
import { mountRun } from "./run.js";
import { mountRuns } from "./runs.js";

/** @typedef {(root: HTMLElement, parameter: string) => () => void} Mount */
/** @type {[RegExp, Mount][]} */
const ROUTES = [
  [/^\/$/, mountRuns],
  [/^\/runs\/([^/]+)$/, mountRun],
  [/^\/compare$/, mountCompare],
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let unmount = () => {};

function show() {
  unmount();
  unmount = () => {};
  main.replaceChildren();
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === location.pathname;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const [pattern, mount] of ROUTES) {
    const match = pattern.exec(location.pathname);
    if (match === null) continue;
    unmount = mount(main, decodeURIComponent(match[1] ?? ""));
    return;
  }
  fill(main, h("p", { class: "empty" }, "There is nothing here. ", h("a", { href: "/" }, "All runs")));
}

/** @param {string} path */
function go(path) {
  history.pushState(null, "", path);
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = /** @type {HTMLElement} */ (event.target).closest("a");
  if (!link || link.origin !== location.origin || link.hasAttribute("download") || link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
addEventListener("popstate", show);
addEventListener("mosaic-go", (event) => go(/** @type {CustomEvent<string>} */ (event).detail));

const THEMES = /** @type {const} */ (["auto", "light", "dark"]);
const themeButton = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));
/** @param {typeof THEMES[number]} theme */
function drawTheme(theme) {
  fill(themeButton, icon(theme === "light" ? "sun" : theme === "dark" ? "moon" : "auto"));
  const label = `Colours: ${theme === "auto" ? "as the system" : theme}`;
  themeButton.setAttribute("aria-label", label);
  themeButton.title = label;
}
function theme() {
  const saved = /** @type {any} */ (localStorage.getItem("mosaic-theme"));
  return /** @type {typeof THEMES[number]} */ (THEMES.includes(saved) ? saved : "auto");
}
themeButton.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? "auto";
  localStorage.setItem("mosaic-theme", next);
  dispatchEvent(new Event("mosaic-choose-theme"));
  drawTheme(next);
});
drawTheme(theme());

const connectionElement = /** @type {HTMLElement} */ (document.getElementById("connection"));
onConnection(({ state, retryAt }) => {
  connectionElement.dataset.state = state;
  if (state === "down") {
    fill(connectionElement, "Daemon unreachable, retrying", h("span", { class: "countdown", "aria-hidden": "true" }));
    countDown(retryAt);
  } else fill(connectionElement, state === "live" ? "Live" : "Connecting");
});

/** @param {number} retryAt */
function countDown(retryAt) {
  const element = connectionElement.querySelector(".countdown");
  if (element === null) return;
  const left = Math.ceil((retryAt - Date.now()) / 1000);
  element.textContent = left > 0 ? ` in ${left} s` : "";
  if (left > 0) setTimeout(() => element.isConnected && countDown(retryAt), 500);
}

// Ages on the page go on while the daemon is silent: staleness must show.
setInterval(() => dispatchEvent(new CustomEvent("mosaic-second", { detail: now() })), 1000);

show();

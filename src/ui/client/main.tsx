/** Selects the view by the address, and draws what every view shows. */
import "./parts/common.ts";
import { now, onConnection } from "./parts/api.ts";
import { fill, h } from "./parts/dom.ts";
import { listenToKeys } from "./parts/keys.tsx";
import { furtherViews, Icon, Later, lazily } from "./parts/parts.tsx";
import { type JSX, render } from "./parts/preact.ts";
import { drawSavedViews } from "./runs/saved_views.tsx";

furtherViews(async () => (await import("./further_views.tsx")).VIEWS);
const Workspace = lazily(async () => (await import("./workspace.tsx")).Workspace);
const Run = lazily(async () => (await import("./run/run.tsx")).Run);
const SweepsView = lazily(async () => (await import("./sweeps/sweeps_view.tsx")).SweepsView);
const Wall = lazily(async () => (await import("./media/live_tiles.tsx")).Wall);

const ROUTES: [pattern: RegExp, view: (parameter: string) => JSX.Element][] = [
  [/^\/$/, () => <Workspace />],
  [/^\/runs\/([^/]+)$/, (id) => <Run id={id} />],
  [/^\/wall$/, () => <Wall />],
  [/^\/sweeps(?:\/([^/]+))?$/, (name) => <SweepsView name={name} />],
];
const NOTHING = (
  <Later view="Nowhere" props={{ what: "There is nothing here." } satisfies { what: string }} />
);

const main = document.getElementById("main")!;

/** A view starts again with every address. */
function show(): void {
  // Of before, when comparing was another place.
  if (location.pathname === "/compare") {
    history.replaceState(null, "", `/${location.search}${location.hash}`);
  }
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === location.pathname;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const found = ROUTES.find(([pattern]) => pattern.test(location.pathname));
  const parameter = decodeURIComponent(found?.[0].exec(location.pathname)?.[1] ?? "");
  render(null, main);
  render(found ? found[1](parameter) : NOTHING, main);
}

function go(path: string): void {
  history.pushState(null, "", path);
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

document.addEventListener("click", (event) => {
  if (
    event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey
  ) return;
  const link = (event.target as Element).closest("a");
  if (!link || link.origin !== location.origin || link.hasAttribute("download")) return;
  if (link.hash && link.pathname + link.search === location.pathname + location.search) return;
  // The daemon answers it: the manual, or a file.
  if (link.pathname !== "/compare" && !ROUTES.some(([pattern]) => pattern.test(link.pathname))) {
    return;
  }
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});
addEventListener("popstate", show);
addEventListener("mosaic-go", (event) => go((event as CustomEvent<string>).detail));

const THEMES = { auto: "auto", light: "sun", dark: "moon" } as const;
type Theme = keyof typeof THEMES;
const themeButton = document.getElementById("theme") as HTMLButtonElement;
function drawTheme(theme: Theme): void {
  render(<Icon name={THEMES[theme]} />, themeButton);
  themeButton.title = `Colours: ${theme === "auto" ? "as the system" : theme}`;
  themeButton.setAttribute("aria-label", themeButton.title);
}
function theme(): Theme {
  const saved = localStorage.getItem("mosaic-theme") ?? "";
  return saved in THEMES ? saved as Theme : "auto";
}
themeButton.addEventListener("click", () => {
  const names = Object.keys(THEMES) as Theme[];
  const next = names[(names.indexOf(theme()) + 1) % names.length]!;
  localStorage.setItem("mosaic-theme", next);
  dispatchEvent(new Event("mosaic-choose-theme"));
  drawTheme(next);
});
drawTheme(theme());

const status = document.getElementById("connection")!;
onConnection(({ state, retryAt }) => {
  status.dataset.state = state;
  if (state === "down") {
    fill(
      status,
      "Daemon unreachable, retrying",
      h("span", { class: "countdown", "aria-hidden": "true" }),
    );
    countDown(retryAt);
  } else fill(status, state === "live" ? "Live" : "Connecting");
});

function countDown(retryAt: number): void {
  const element = status.querySelector(".countdown");
  if (element === null) return;
  const left = Math.ceil((retryAt - Date.now()) / 1000);
  element.textContent = left > 0 ? ` in ${left} s` : "";
  if (left > 0) setTimeout(() => element.isConnected && countDown(retryAt), 500);
}

// Ages on the page increase even while the daemon is silent: staleness must be visible.
setInterval(() => dispatchEvent(new CustomEvent("mosaic-second", { detail: now() })), 1000);

listenToKeys();
const views = document.getElementById("views")!;
drawSavedViews(views);
// A menu closes when something else is used.
document.addEventListener("click", (event) => {
  const menu = views.querySelector("details");
  if (
    menu?.open && (!menu.contains(event.target as Node) || (event.target as Element).closest("a"))
  ) menu.open = false;
});
show();

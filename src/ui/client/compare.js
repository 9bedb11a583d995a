// @ts-check
/** Several runs side by side: figures, charts laid over each other, and where their configs differ. */
import { get, heardTime, live, now, runPath } from "./api.js";
import { Charts } from "./charts.js";
import { configDifferences } from "./config_diff.js";
import { attempt } from "./dialog.js";
import { fill, h } from "./dom.js";
import { duration, elapsed, score, whole } from "./format.js";
import { chip, isEnded } from "./states.js";
/** @typedef {import("../page_json.ts").RunPage} RunPage */

const MOST = 12;
/** Every so many ticks the figures and charts are read again. */
const TICKS = 3;

/** Names may be the same: then the id tells them apart. @param {RunPage[]} runs */
function labelled(runs) {
  return runs.map((r) => ({
    ...r,
    name: runs.some((o) => o !== r && o.name === r.name) ? `${r.name} (${r.run_id.slice(-6)})` : r.name,
  }));
}

/** @param {HTMLElement} root */
export function mountCompare(root) {
  document.title = "Compare · mosaic";
  const ids = (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) => id !== "").slice(
    0,
    MOST,
  );
  /** @type {(() => void)[]} */
  const closers = [];
  let mounted = true;
  const picker = h("div", {});
  const content = h("div", { class: "compare" });
  fill(root, h("h1", {}, "Compare"), picker, content);
  attempt(async () => {
    const { runs, head } = await get("/api/runs?limit=200");
    if (!mounted) return;
    drawPicker(picker, runs, ids);
    if (ids.length === 0) fill(content, h("p", { class: "empty" }, "Choose runs to lay their charts over each other."));
    const refresh = ids.length === 0 ? async () => {} : await drawComparison(content, ids, closers);
    let ticks = 0;
    const close = live("/api/live", head, {
      tick: (data) => {
        heardTime(data.at);
        if (++ticks % TICKS === 0) refresh().catch(() => {});
      },
    });
    closers.push(close);
    if (!mounted) close();
  });
  return () => {
    mounted = false;
    for (const close of closers) close();
  };
}

/**
 * @param {HTMLElement} content @param {string[]} ids @param {(() => void)[]} closers
 * @returns {Promise<() => Promise<void>>} reads the figures and charts again
 */
async function drawComparison(content, ids, closers) {
  const chosen = labelled(await Promise.all(ids.map((id) => get(runPath(id)))));
  const differences = await configDifferences(chosen);
  const charts = new Charts(chosen);
  closers.push(() => charts.destroy());
  const table = h("div", { class: "table-scroll", tabIndex: 0, role: "region", "aria-label": "Figures" });
  fill(content, table, charts.element, h("h2", {}, "Where the configs differ"), differences);
  drawFigures(table, chosen);
  charts.refresh();
  return async () => {
    if (chosen.every(isEnded)) return;
    const { runs } = await get(`/api/runs?ids=${ids.join(",")}`);
    for (const run of runs) {
      const mine = chosen.find((c) => c.run_id === run.run_id);
      if (mine) Object.assign(mine, { ...run, name: mine.name });
    }
    drawFigures(table, chosen);
    charts.refresh();
  };
}

/** @param {HTMLElement} root @param {{run_id: string, name: string}[]} runs @param {string[]} ids */
function drawPicker(root, runs, ids) {
  const go = (/** @type {string[]} */ next) =>
    dispatchEvent(
      new CustomEvent("mosaic-go", { detail: next.length > 0 ? `/compare?runs=${next.join(",")}` : "/compare" }),
    );
  const others = runs.filter((r) => !ids.includes(r.run_id));
  const select = h(
    "select",
    { "aria-label": "Add a run", onchange: () => select.value !== "" && go([...ids, select.value]) },
    h("option", { value: "" }, "Add a run …"),
    others.map((r) => h("option", { value: r.run_id }, `${r.name} (${r.run_id.slice(-6)})`)),
  );
  fill(
    root,
    h(
      "div",
      { class: "filters" },
      ids.map((id) => {
        const name = runs.find((r) => r.run_id === id)?.name ?? id.slice(-6);
        return h(
          "button",
          {
            type: "button",
            class: "picked",
            "aria-label": `Leave out ${name}`,
            onclick: () => go(ids.filter((i) => i !== id)),
          },
          h("span", {}, name),
          " ×",
        );
      }),
      ids.length < MOST && select,
    ),
  );
}

/** @param {HTMLElement} root @param {RunPage[]} runs */
function drawFigures(root, runs) {
  const at = now();
  fill(
    root,
    h(
      "table",
      { class: "records" },
      h("caption", { class: "unseen" }, "Figures"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Run", "State", "Steps", "Episodes", "Mean reward", "Elapsed"].map((t, i) =>
            h("th", { scope: "col", class: i > 1 ? "num" : "" }, t)
          ),
        ),
      ),
      h(
        "tbody",
        {},
        runs.map((r) =>
          h(
            "tr",
            {},
            h("td", {}, h("a", { href: `/runs/${encodeURIComponent(r.run_id)}` }, r.name)),
            h("td", {}, chip(r.state)),
            h("td", { class: "num" }, whole(r.steps)),
            h("td", { class: "num" }, whole(r.episodes)),
            h("td", { class: "num" }, score(r.mean_reward_100)),
            h("td", { class: "num" }, duration(elapsed(r, at))),
          )
        ),
      ),
    ),
  );
}

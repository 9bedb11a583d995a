// @ts-check
/** The list of all runs: live, filtered, sorted, with actions on many. */
import { ACTIONS, actOnMany } from "./actions.js";
import { get, heardTime, live, now, readOnly } from "./api.js";
import { attempt } from "./dialog.js";
import { fill, h, onceAFrame, setText } from "./dom.js";
import { whole } from "./format.js";
import { drawHost } from "./host_strip.js";
import { RunsModel } from "./runs_model.js";
import { RunsTable } from "./runs_table.js";
import { STATES } from "./states.js";

const PAGE = 500;
/** More runs than this are not held by the page; the oldest are left out. */
const MOST_RUNS = 20_000;
const MANY_ACTIONS = ["cancel", "retry", "delete"];

/** @param {HTMLElement} root */
export function mountRuns(root) {
  document.title = "Runs · mosaic";
  const model = new RunsModel();
  readAddress(model);
  const selectedBar = h("div", { class: "selection", hidden: true });
  const table = new RunsTable({ selectable: !readOnly, onselect: () => drawSelection(), onsort: sortBy });
  const host = h("section", { class: "host", "aria-label": "Host", tabIndex: 0 });
  const search = h("input", {
    type: "search",
    placeholder: "Name or id",
    "aria-label": "Filter by name or id",
    value: model.filter.text,
    oninput: () => {
      model.filter.text = search.value;
      changed();
    },
  });
  const tag = h("select", {
    "aria-label": "Filter by tag",
    onchange: () => {
      model.filter.tag = tag.value;
      changed();
    },
  });
  const kind = h(
    "select",
    {
      "aria-label": "Filter by kind",
      hidden: true,
      onchange: () => {
        model.filter.kind = kind.value;
        changed();
      },
    },
    h("option", { value: "" }, "Training and evaluations"),
    h("option", { value: "train" }, "Training only"),
    h("option", { value: "eval" }, "Evaluations only"),
  );
  kind.value = model.filter.kind;
  const chips = STATES.map((state) => {
    const count = h("span", { class: "count" });
    const button = h(
      "button",
      {
        type: "button",
        class: "chip",
        "data-state": state,
        "aria-pressed": "false",
        onclick: () => {
          model.filter.states.has(state) ? model.filter.states.delete(state) : model.filter.states.add(state);
          changed();
        },
      },
      state,
      count,
    );
    return { state, button, count };
  });
  const total = h("span", { class: "total", role: "status" });
  const empty = h("p", { class: "empty", hidden: true });
  fill(
    root,
    h("h1", { class: "unseen" }, "Runs"),
    host,
    h(
      "div",
      { class: "filters", role: "search" },
      search,
      h("div", { class: "chips", role: "group", "aria-label": "Filter by state" }, chips.map((c) => c.button)),
      tag,
      kind,
      h("span", { class: "grow" }),
      total,
    ),
    selectedBar,
    table.element,
    empty,
  );
  root.classList.add("fixed");

  let loading = true;
  let stepsPerSecond = 0;
  let knownTags = "";
  const draw = onceAFrame(() => {
    const at = now();
    const shown = model.shown(at);
    table.show(shown, model.sort, model.direction, at);
    const counts = model.countByState();
    for (const { state, button, count } of chips) {
      setText(count, whole(counts.get(state) ?? 0));
      button.setAttribute("aria-pressed", String(model.filter.states.has(state)));
      button.hidden = !counts.has(state) && !model.filter.states.has(state);
    }
    const tags = model.tags();
    if (tags.join("\n") !== knownTags) {
      knownTags = tags.join("\n");
      fill(tag, h("option", { value: "" }, "All tags"), tags.map((t) => h("option", { value: t }, t)));
      tag.value = model.filter.tag;
    }
    if (kind.hidden && model.hasEvaluations()) kind.hidden = false;
    tag.hidden = tags.length === 0;
    const all = model.runs.size;
    setText(
      total,
      loading
        ? `Loading ${whole(all)} …`
        : shown.length === all
        ? `${whole(all)} ${all === 1 ? "run" : "runs"}`
        : `${whole(shown.length)} of ${whole(all)} runs`,
    );
    empty.hidden = shown.length > 0 || loading;
    table.element.hidden = shown.length === 0;
    setText(empty, all === 0 ? "No runs yet. Submit one with: mosaic submit FILE" : "No run passes these filters.");
  });

  function changed() {
    writeAddress(model);
    table.element.scrollTop = 0;
    draw();
  }

  /** @param {string} id */
  function sortBy(id) {
    if (model.sort === id) model.direction = model.direction === 1 ? -1 : 1;
    else {
      model.sort = id;
      model.direction = ["name", "state", "queue", "outcome"].includes(id) ? 1 : -1;
    }
    changed();
  }

  function drawSelection() {
    const chosen = [...table.selected].map((id) => model.runs.get(id)).filter((r) => r !== undefined);
    selectedBar.hidden = chosen.length === 0;
    if (chosen.length === 0) return;
    fill(
      selectedBar,
      h("strong", { role: "status" }, `${whole(chosen.length)} selected`),
      ACTIONS.filter((a) => MANY_ACTIONS.includes(a.id)).map((a) =>
        h("button", {
          type: "button",
          class: a.class,
          "data-action": a.id,
          onclick: async () => {
            await actOnMany(a.id, chosen);
            drawSelection();
          },
        }, a.label)
      ),
      chosen.length >= 2 && chosen.length <= 12 &&
        h("a", { class: "button", href: `/compare?runs=${chosen.map((r) => r.run_id).join(",")}` }, "Compare"),
      h("button", { type: "button", onclick: clearSelection }, "Clear"),
    );
  }
  function clearSelection() {
    table.selected.clear();
    drawSelection();
    draw();
  }

  let generation = 0;
  /** Reads all runs anew, page by page; the first page is shown at once. */
  async function load() {
    const mine = ++generation;
    loading = true;
    let token = "";
    let head;
    const seen = new Set();
    do {
      const page = await get(`/api/runs?limit=${PAGE}${token && `&token=${encodeURIComponent(token)}`}`);
      if (mine !== generation) return;
      head ??= page.head;
      model.put(page.runs);
      for (const run of page.runs) seen.add(run.run_id);
      token = page.next_token ?? "";
      draw();
    } while (token !== "" && seen.size < MOST_RUNS);
    for (const id of model.runs.keys()) if (!seen.has(id)) model.remove(id);
    for (const id of table.selected) if (!seen.has(id)) table.selected.delete(id);
    loading = false;
    drawSelection();
    draw();
    return head;
  }

  /** @type {() => void} */
  let close = () => {};
  let mounted = true;
  let mismatches = 0;
  const begin = async () => {
    // Deliberately from before the list was read: what changed meanwhile is sent again.
    const head = await load();
    if (!mounted || head === undefined) return;
    close = live("/api/live", head, {
      runs: (data) => {
        model.put(data.runs);
        for (const id of data.deleted) {
          model.remove(id);
          table.selected.delete(id);
        }
        drawSelection();
        draw();
      },
      tick: (data) => {
        heardTime(data.at);
        model.put(data.runs);
        stepsPerSecond = data.runs.reduce((/** @type {number} */ n, /** @type {any} */ r) => n + r.steps_per_second, 0);
        drawHost(host, data.host, stepsPerSecond, (id) => model.runs.get(id)?.name ?? id);
        // Another daemon's database, or more changes than the page followed: the total tells.
        mismatches = !loading && data.total !== model.runs.size && model.runs.size < MOST_RUNS ? mismatches + 1 : 0;
        if (mismatches >= 2) {
          mismatches = 0;
          attempt(load);
        }
        draw();
      },
      restarted: () => attempt(load),
    });
  };
  const start = () =>
    begin().catch((error) => {
      if (!mounted) return;
      // Not an empty table: why there is none must show.
      setText(total, `The runs cannot be read, trying again: ${error.message}`);
      setTimeout(start, 2000);
    });
  start();

  const queue = setInterval(async () => {
    const waiting = table.inSight().filter((r) => r.state === "INIT").map((r) => r.run_id);
    if (waiting.length === 0 || document.hidden) return;
    try {
      model.put((await get(`/api/runs?ids=${waiting.join(",")}`)).runs);
      draw();
    } catch {
      // The connection's state is shown already.
    }
  }, 3000);
  const onSecond = () => draw();
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const typing = /** @type {HTMLElement} */ (event.target).matches?.("input, select, textarea, dialog *");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = model.filter.text = "";
      table.element.focus();
      changed();
    }
  };
  addEventListener("mosaic-second", onSecond);
  addEventListener("keydown", onKey);
  addEventListener("resize", onSecond);
  return () => {
    mounted = false;
    generation++;
    close();
    clearInterval(queue);
    removeEventListener("mosaic-second", onSecond);
    removeEventListener("keydown", onKey);
    removeEventListener("resize", onSecond);
    root.classList.remove("fixed");
  };
}

/** The filters are in the address, so that a view can be kept and shared. @param {RunsModel} model */
function readAddress(model) {
  const query = new URLSearchParams(location.search);
  model.filter.text = query.get("name") ?? "";
  model.filter.tag = query.get("tag") ?? "";
  const kind = query.get("kind") ?? "";
  model.filter.kind = kind === "train" || kind === "eval" ? kind : "";
  model.filter.states = new Set((query.get("state") ?? "").split(",").filter((s) => STATES.some((k) => k === s)));
  model.sort = query.get("sort") ?? "created";
  model.direction = query.get("dir") === "asc" ? 1 : -1;
}

/** @param {RunsModel} model */
function writeAddress(model) {
  const query = new URLSearchParams();
  const { text, tag, states, kind } = model.filter;
  if (text) query.set("name", text);
  if (tag) query.set("tag", tag);
  if (kind) query.set("kind", kind);
  if (states.size > 0) query.set("state", [...states].join(","));
  if (model.sort !== "created" || model.direction !== -1) {
    query.set("sort", model.sort);
    query.set("dir", model.direction === 1 ? "asc" : "desc");
  }
  const search = query.toString();
  history.replaceState(null, "", search ? `/?${search}` : "/");
}

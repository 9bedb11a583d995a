// @ts-check
/** Tabs by the ARIA pattern: arrows move, the chosen one is in the address. */
import { h } from "./dom.js";

/** @typedef {{id: string, label: string, content: HTMLElement, shown?: () => void}} Tab */

/** @param {Tab[]} list */
export function tabs(list) {
  let current = list[0]?.id ?? "";
  const buttons = list.map(({ id, label }) =>
    h("button", {
      type: "button",
      role: "tab",
      id: `tab-${id}`,
      "aria-controls": `panel-${id}`,
      onclick: () => choose(id, true),
    }, label)
  );
  const panels = list.map(({ id, content }) =>
    h("div", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, tabIndex: 0 }, content)
  );
  const strip = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of this run" }, buttons);
  strip.addEventListener("keydown", (event) => {
    const at = list.findIndex((t) => t.id === current);
    const moves =
      /** @type {Record<string, number>} */ ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1 });
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + list.length) % list.length;
    choose(list[next]?.id ?? "", true);
    buttons[next]?.focus();
  });
  /** @param {string} id @param {boolean} remember */
  function choose(id, remember) {
    current = id;
    list.forEach((tab, i) => {
      const chosen = tab.id === id;
      buttons[i]?.setAttribute("aria-selected", String(chosen));
      Object.assign(buttons[i] ?? {}, { tabIndex: chosen ? 0 : -1 });
      Object.assign(panels[i] ?? {}, { hidden: !chosen });
    });
    if (remember) history.replaceState(null, "", `${location.pathname}${location.search}#${id}`);
    list.find((t) => t.id === id)?.shown?.();
  }
  const asked = location.hash.slice(1);
  queueMicrotask(() => choose(list.some((t) => t.id === asked) ? asked : current, false));
  return { element: h("div", { class: "tabbed" }, strip, panels), current: () => current };
}

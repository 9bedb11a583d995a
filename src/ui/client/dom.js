// @ts-check
/**
 * Elements from data. Texts become text nodes and nothing is ever parsed as HTML, so what a worker says stays text.
 *
 * @typedef {Node | string | number | null | undefined | false} Child
 */

const PROPERTIES = new Set(["value", "checked", "indeterminate", "disabled", "hidden", "htmlFor", "tabIndex", "open"]);

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [attributes] `on…` are listeners, `class`, `data-…` and `aria-…` as in HTML
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (PROPERTIES.has(name)) {
      Object.assign(element, { [name]: value });
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...nodes(children.flat()));
  return element;
}

/** @param {Child[]} children */
function nodes(children) {
  return children.filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => c instanceof Node ? c : String(c));
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children.flat()));
}

/**
 * A table that scrolls by itself where it is wider than the page.
 * @param {string} label @param {string} kind its class
 * @param {(string | [text: string, kind: string | undefined])[]} headings @param {HTMLElement} body @param {string} [caption]
 */
export function scrollTable(label, kind, headings, body, caption = label) {
  const heading = (/** @type {[string, string | undefined]} */ [text, kind]) =>
    h("th", { scope: "col", class: kind }, text);
  return h(
    "div",
    { class: "table-scroll", tabIndex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: kind },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, headings.map((one) => heading(typeof one === "string" ? [one, undefined] : one)))),
      body,
    ),
  );
}

/** Writes a text only when it changed: a live table touches few cells per second.
 * @param {Node} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";
/** Outlines on a 16 × 16 grid. */
const ICONS = {
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  reset: "M3 8a5 5 0 1 0 1.6-3.7M3 2.5V5h2.5",
  plus: "M8 3.5v9M3.5 8h9",
  larger: "M9.5 2.5h4v4M13.5 2.5l-5 5M6.5 13.5h-4v-4M2.5 13.5l5-5",
  download: "M8 2.5v7.5M5 7.5l3 3 3-3M3 13.5h10",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3v10M11 3v10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
};
/** @typedef {keyof typeof ICONS} Icon */

/** @param {Icon} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "glyph");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** @param {Icon} name @param {string} label @param {(event: Event) => void} onclick */
export function iconButton(name, label, onclick) {
  return h("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, icon(name));
}

/** Calls `draw` at most once per frame, and not at all while the page is hidden.
 * @param {() => void} draw */
export function onceAFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** A file made here, handed to the person. @param {string} name @param {Blob} blob */
export function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

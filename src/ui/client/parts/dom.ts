/**
 * Builds elements from data, for the islands that Preact does not draw: the table of runs, charts,
 * logs. Texts become text nodes and nothing is ever parsed as HTML, so a worker's text stays text.
 */

export type Child = Node | string | number | null | undefined | false;

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "tabIndex"]);

/** @param attributes `on…` are listeners, `class`, `data-…` and `aria-…` as in HTML */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, unknown> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (PROPERTIES.has(name)) Object.assign(element, { [name]: value });
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

export function fill(element: Element, ...children: (Child | Child[])[]): void {
  element.replaceChildren(
    ...children.flat().filter((c) => c !== null && c !== undefined && c !== false)
      .map((c) => c instanceof Node ? c : String(c)),
  );
}

/** Writes a text only if it changed: a live table changes few cells per second. */
export function setText(element: Node, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Letters at the end of a name that stay. */
const KEPT_END = 10;

/**
 * A name of which the middle is cut if there is no room: beginning and end tell names from each
 * other.
 */
export function endsKept(name = ""): HTMLElement {
  const element = h("span", { class: "ends-kept" }, h("span"), h("span"));
  setEnds(element, name);
  return element;
}

/** Changes a name made by `endsKept`. */
export function setEnds(element: HTMLElement, name: string): void {
  const at = Math.max(Math.ceil(name.length / 2), name.length - KEPT_END);
  const [begin, end] = element.children as unknown as [Element, Element];
  setText(begin, name.slice(0, at));
  setText(end, name.slice(at));
}

const SVG = "http://www.w3.org/2000/svg";
/** Outlines on a 16 × 16 grid. */
export const ICONS = {
  sun:
    "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  reset: "M3 8a5 5 0 1 0 1.6-3.7M3 2.5V5h2.5",
  larger: "M9.5 2.5h4v4M13.5 2.5l-5 5M6.5 13.5h-4v-4M2.5 13.5l5-5",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3v10M11 3v10",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  eye:
    "M1.5 8s2.4-4.2 6.5-4.2S14.5 8 14.5 8s-2.4 4.2-6.5 4.2S1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6z",
  shut: "M1.5 7.5s2.4 3.7 6.5 3.7 6.5-3.7 6.5-3.7M4 10l-1 1.6M8 11.2v2M12 10l1 1.6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
};
export type IconName = keyof typeof ICONS;

export function iconButton(name: IconName, label: string, onclick: () => void): HTMLButtonElement {
  const svg = document.createElementNS(SVG, "svg");
  for (
    const [k, v] of [["viewBox", "0 0 16 16"], ["class", "glyph"], ["aria-hidden", "true"]] as const
  ) {
    svg.setAttribute(k, v);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return h(
    "button",
    { type: "button", class: "icon", "aria-label": label, title: label, onclick },
    svg,
  );
}

/** Downloads a file that was created in the page. */
export function saveFile(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Shows another view. */
export function go(path: string): void {
  dispatchEvent(new CustomEvent("mosaic-go", { detail: path }));
}

/**
 * Writes values into the address, so that it is a link to the current view; empty ones are omitted.
 */
export function toAddress(values: Record<string, string | string[]>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    query.delete(name);
    for (const one of [value].flat()) if (one !== "") query.append(name, one);
  }
  const search = query.toString().replaceAll("%2C", ",");
  history.replaceState(null, "", `${location.pathname}${search && `?${search}`}${location.hash}`);
}

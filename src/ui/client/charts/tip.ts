/** What the lines are at the pointer: one box over the page, so that nothing moves below it. */
import { fill, h, setText } from "../parts/dom.ts";

export interface TipRow {
  color: string;
  label: string;
  /** Only asked of the rows that are shown. */
  text(): string;
  /** The line nearest to the pointer. */
  near: boolean;
}

/** More rows than this are cut, around the nearest. */
const MOST_ROWS = 14;
const AWAY = 14;
const title = h("b");
const above = h("div", { class: "sub" });
const below = h("div", { class: "sub" });
/** Written again at each move, never made anew. */
const rows = Array.from({ length: MOST_ROWS }, () => {
  const [mark, label, value] = [
    h("span", { class: "mark" }),
    h("bdi"),
    h("span", { class: "value" }),
  ];
  return { element: h("div", {}, mark, label, value), mark, label, value };
});
/** A popover, so that it is also above a chart in full screen. */
const box = h("div", { class: "tip", popover: "manual", "aria-hidden": "true" });
let open = false;
/** The lines of the box that are there. */
let filled = "";

/**
 * Shows rows beside a place of the window, on the side that has more room: nothing is measured, so
 * a move of the pointer makes the browser lay out once.
 */
export function showTip(text: string, all: readonly TipRow[], left: number, top: number): void {
  if (!box.isConnected) document.body.append(box);
  const near = Math.max(0, all.findIndex((row) => row.near));
  const first = Math.max(0, Math.min(near - (MOST_ROWS >> 1), all.length - MOST_ROWS));
  const shown = all.slice(first, first + MOST_ROWS);
  const after = all.length - first - shown.length;
  const wanted = [first > 0, shown.length, after > 0].join();
  if (filled !== wanted) {
    filled = wanted;
    const lines = rows.slice(0, shown.length).map(({ element }) => element);
    fill(box, title, first > 0 && above, lines, after > 0 && below);
  }
  setText(title, text);
  setText(above, `${first} above`);
  setText(below, `${after} below`);
  for (const [i, row] of shown.entries()) {
    const { element, mark, label, value } = rows[i]!;
    if (mark.dataset.color !== row.color) {
      mark.dataset.color = row.color;
      mark.style.color = row.color;
    }
    if (element.classList.contains("near") !== row.near) element.classList.toggle("near", row.near);
    setText(label, row.label);
    setText(value, row.text());
  }
  const place = (at: number, size: number) =>
    at > size / 2 ? `calc(${Math.round(at - AWAY)}px - 100%)` : `${Math.round(at + AWAY)}px`;
  box.style.transform = `translate(${place(left, innerWidth)}, ${place(top, innerHeight)})`;
  if (open) return;
  box.showPopover();
  open = true;
}

export function hideTip(): void {
  if (open) box.hidePopover();
  open = false;
}

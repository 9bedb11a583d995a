/** What the lines are at the pointer: one box over the page, so that nothing moves below it. */
import { fill, h } from "../parts/dom.ts";

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
/** A popover, so that it is also above a chart in full screen. */
const box = h("div", { class: "tip", popover: "manual", "aria-hidden": "true" });

/** Shows rows beside a place of the window. */
export function showTip(title: string, rows: readonly TipRow[], left: number, top: number): void {
  if (!box.isConnected) document.body.append(box);
  const near = Math.max(0, rows.findIndex((row) => row.near));
  const first = Math.max(0, Math.min(near - (MOST_ROWS >> 1), rows.length - MOST_ROWS));
  const shown = rows.slice(first, first + MOST_ROWS);
  const more = (n: number, where: string) => n > 0 && h("div", { class: "sub" }, `${n} ${where}`);
  fill(
    box,
    h("b", {}, title),
    more(first, "above"),
    shown.map(({ color, label, text, near }) => {
      const mark = h("span", { class: "mark" });
      mark.style.color = color;
      return h(
        "div",
        { class: near ? "near" : "" },
        mark,
        h("bdi", {}, label),
        h("span", { class: "value" }, text()),
      );
    }),
    more(rows.length - first - shown.length, "below"),
  );
  if (!box.matches(":popover-open")) box.showPopover();
  const { offsetWidth: width, offsetHeight: height } = box;
  box.style.left = `${
    left + AWAY + width > innerWidth ? Math.max(0, left - AWAY - width) : left + AWAY
  }px`;
  box.style.top = `${Math.max(0, Math.min(top + AWAY, innerHeight - height))}px`;
}

export function hideTip(): void {
  if (box.matches(":popover-open")) box.hidePopover();
}

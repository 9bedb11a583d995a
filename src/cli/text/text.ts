/** Text for a terminal: width, cutting, padding, colours, escaped control characters. */
export { escapeControl, escapeControlLines } from "../../base/text/terminal_text.ts";

// Zero-width characters: combining marks, joiners, variation selectors.
const ZERO_WIDTH = /[\p{Mn}\p{Me}\u200b-\u200f\u2060\ufeff\ufe00-\ufe0f]/u;
// Double-width characters: East Asian wide and fullwidth blocks, emoji.
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;

/** Width in columns of text without control characters. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const char of text) width += ZERO_WIDTH.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
  return width;
}

/** Cuts text to `width` columns, with "…" at the end if it was longer. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  if (width <= 0) return "";
  let out = "";
  let used = 0;
  for (const char of text) {
    const w = widthOf(char);
    if (used + w > width - 1) break;
    out += char;
    used += w;
  }
  return `${out}…`;
}

export function pad(text: string, width: number, align: "left" | "right" = "left"): string {
  const fill = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "left" ? text + fill : fill + text;
}

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "blue" | "magenta" | "cyan";
const CODES: Record<Style, [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
};

export function paint(text: string, style: Style | undefined, color: boolean): string {
  if (!color || style === undefined || text === "") return text;
  const [on, off] = CODES[style];
  return `\x1b[${on}m${text}\x1b[${off}m`;
}

/**
 * The style of a state, the same in all outputs: the colours of the page (style.css), as a terminal
 * has them.
 */
export function stateStyle(state: string): Style | undefined {
  switch (state) {
    case "HANDSHAKE":
      return "magenta";
    case "READY":
      return "cyan";
    case "EXECUTING":
      return "blue";
    case "TERMINATED":
      return "green";
    case "FAULTED":
      return "red";
    case "PAUSED":
      return "yellow";
    default:
      return "dim";
  }
}

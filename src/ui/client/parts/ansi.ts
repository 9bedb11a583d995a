/**
 * Terminal colours as spans. Only select-graphic-rendition is interpreted; other escapes are
 * dropped.
 */
import { h } from "./dom.ts";

// deno-lint-ignore no-control-regex
const ESCAPE = /\x1b(?:\[([0-9;:]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

interface Pen {
  fg: number | null;
  bg: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}
const plain = (): Pen => ({
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
});

function apply(pen: Pen, codes: number[]): void {
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i] ?? 0;
    if (c === 0) Object.assign(pen, plain());
    else if (c === 1) pen.bold = true;
    else if (c === 2) pen.dim = true;
    else if (c === 3) pen.italic = true;
    else if (c === 4) pen.underline = true;
    else if (c === 22) pen.bold = pen.dim = false;
    else if (c === 23) pen.italic = false;
    else if (c === 24) pen.underline = false;
    else if (c >= 30 && c <= 37) pen.fg = c - 30;
    else if (c === 39) pen.fg = null;
    else if (c >= 40 && c <= 47) pen.bg = c - 40;
    else if (c === 49) pen.bg = null;
    else if (c >= 90 && c <= 97) pen.fg = c - 82;
    else if (c >= 100 && c <= 107) pen.bg = c - 92;
    else if (c === 38 || c === 48) {
      // The 16 named colours of a palette are kept; others fall back to the text's colour.
      const named = codes[i + 1] === 5 ? codes[i + 2] ?? 0 : null;
      i += codes[i + 1] === 5 ? 2 : 4;
      const color = named !== null && named < 16 ? named : null;
      if (c === 38) pen.fg = color;
      else pen.bg = color;
    }
  }
}

function classes(pen: Pen): string {
  return [
    pen.fg !== null && `fg${pen.fg}`,
    pen.bg !== null && `bg${pen.bg}`,
    pen.bold && "bold",
    pen.dim && "dim",
    pen.italic && "italic",
    pen.underline && "underline",
  ].filter(Boolean).join(" ");
}

/** A line as a terminal shows it: a carriage return starts it again. */
export function afterReturns(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

export function colored(line: string): (string | HTMLElement)[] {
  if (!line.includes("\x1b")) return [line];
  const parts: (string | HTMLElement)[] = [];
  const pen = plain();
  let from = 0;
  const put = (text: string) => {
    if (text === "") return;
    const classNames = classes(pen);
    parts.push(classNames === "" ? text : h("span", { class: classNames }, text));
  };
  for (const match of line.matchAll(ESCAPE)) {
    put(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") apply(pen, (match[1] ?? "").split(/[;:]/).map(Number));
  }
  put(line.slice(from));
  return parts;
}

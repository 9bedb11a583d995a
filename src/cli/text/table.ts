/** Tables that fit the terminal: only columns with `shrinkTo` are cut. */
import { cut, escapeControl, pad, paint, type Style, widthOf } from "./text.ts";

export interface Column<Row> {
  /** Name for --columns; the default heading is its upper case. */
  name: string;
  heading?: string;
  align?: "left" | "right";
  /** Minimum width when the table is too wide; absent: never cut. */
  shrinkTo?: number;
  text(row: Row): string;
  style?(row: Row): Style | undefined;
}

export interface TableOptions {
  /** Width of the terminal; undefined: not a terminal, nothing is cut. */
  width: number | undefined;
  color: boolean;
  heading?: boolean;
}

const GAP = 2;

export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  options: TableOptions,
): string {
  const heading = options.heading !== false;
  const cells = rows.map((row) => columns.map((c) => escapeControl(c.text(row)) || "-"));
  const titles = columns.map((c) =>
    escapeControl(c.heading ?? c.name.toUpperCase().replaceAll("_", " "))
  );
  const widths = columns.map((_, i) =>
    Math.max(heading ? widthOf(titles[i]!) : 0, ...cells.map((row) => widthOf(row[i]!)), 0)
  );
  if (options.width !== undefined) shrink(columns, widths, options.width);
  const line = (texts: readonly string[], style: (i: number) => Style | undefined) =>
    texts
      .map((text, i) => {
        const shown = cut(text, widths[i]!);
        const last = i === columns.length - 1 && columns[i]!.align !== "right";
        const painted = paint(shown, style(i), options.color);
        const padding = pad(shown, last ? 0 : widths[i]!, columns[i]!.align).replace(shown, "");
        return columns[i]!.align === "right" ? padding + painted : painted + padding;
      })
      .join(" ".repeat(GAP));
  const lines = cells.map((row, r) => line(row, (i) => columns[i]!.style?.(rows[r]!)));
  if (heading) lines.unshift(line(titles, () => "bold"));
  return lines.map((l) => `${l.trimEnd()}\n`).join("");
}

/** Narrows the widest column that may shrink, until the table fits or none may shrink further. */
function shrink<Row>(columns: readonly Column<Row>[], widths: number[], width: number): void {
  const total = () => widths.reduce((a, b) => a + b, 0) + GAP * (widths.length - 1);
  while (total() > width) {
    let widest = -1;
    columns.forEach((c, i) => {
      if (c.shrinkTo === undefined || widths[i]! <= c.shrinkTo) return;
      if (widest < 0 || widths[i]! > widths[widest]!) widest = i;
    });
    if (widest < 0) return;
    widths[widest]!--;
  }
}

/** Names and values in two aligned columns; omits entries without a value. */
export function facts(
  entries: readonly (readonly [name: string, value: string | undefined])[],
  color: boolean,
): string {
  const shown = entries.filter(([, value]) => value !== undefined && value !== "");
  const width = Math.max(...shown.map(([name]) => widthOf(name)), 0) + GAP;
  return shown.map(([name, value]) =>
    `${paint(pad(escapeControl(name), width), "dim", color)}${escapeControl(value!)}\n`
  ).join(
    "",
  );
}

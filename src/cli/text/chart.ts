/** Curves for a terminal: a one-line sparkline, and a plot of several series in Braille dots. */
import { number } from "../../base/text/format.ts";
import { escapeControl, pad, paint, type Style, widthOf } from "./text.ts";

const BARS = "▁▂▃▄▅▆▇█";

/**
 * At most `width` bars for the values, scaled from minimum to maximum; a blank for NaN and
 * infinities.
 */
export function sparkline(values: readonly number[], width: number): string {
  const shown = squeeze(values, width);
  const finite = shown.filter(Number.isFinite);
  const low = Math.min(...finite);
  const range = Math.max(...finite) - low;
  return shown
    .map((
      v,
    ) => (!Number.isFinite(v)
      ? " "
      : BARS[range === 0 ? 0 : Math.min(7, Math.floor(((v - low) / range) * 8))]!)
    )
    .join("");
}

/** At most `width` values: the means of equal ranges. */
function squeeze(values: readonly number[], width: number): number[] {
  if (values.length <= width) return [...values];
  return Array.from({ length: width }, (_, i) => {
    const from = Math.floor((i * values.length) / width);
    const to = Math.max(from + 1, Math.floor(((i + 1) * values.length) / width));
    const part = values.slice(from, to).filter(Number.isFinite);
    return part.length === 0 ? NaN : part.reduce((a, b) => a + b, 0) / part.length;
  });
}

export interface Point {
  x: number;
  y: number;
  /** Edges of a band around the curve, drawn as dots. */
  min?: number;
  max?: number;
}

export interface Series {
  name: string;
  points: readonly Point[];
}

export interface PlotOptions {
  width: number;
  height: number;
  color: boolean;
  title: string;
  xLabel: string;
  /** Logarithmic y axis; omits values ≤ 0. */
  log?: boolean;
}

const SERIES_STYLES: Style[] = ["green", "magenta", "yellow", "cyan", "blue", "red"];
/** Bits of the eight dots of a Braille cell, by column and row. */
const DOTS = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]] as const;

/** The plot as lines of text: axes, curves, legend. */
export function plot(series: readonly Series[], options: PlotOptions): string {
  const scale = options.log ? Math.log10 : (y: number) => y;
  const isUsable = (p: Point) =>
    Number.isFinite(p.x) && Number.isFinite(p.y) && (!options.log || p.y > 0);
  const all = series.flatMap((s) => s.points.filter(isUsable));
  const inBand = (y: number | undefined): y is number =>
    y !== undefined && Number.isFinite(y) && (!options.log || y > 0);
  const edges = all.flatMap(({ min, max }) => [min, max].filter(inBand));
  if (all.length === 0) return `${escapeControl(options.title)}: no points to plot\n`;
  const [xLow, xHigh] = range(all.map((p) => p.x), false);
  const [low, high] = range([...all.map((p) => p.y), ...edges].map(scale), true);
  const rows = Math.max(3, options.height - 3);
  const labels = Array.from({ length: rows }, (_, r) => {
    const value = high - ((high - low) * r) / (rows - 1);
    return r === rows - 1 || (r % 4 === 0 && r < rows - 2)
      ? number(options.log ? 10 ** value : value)
      : "";
  });
  const gutter = Math.max(...labels.map(widthOf));
  const columns = Math.max(10, options.width - gutter - 2);
  const grid = new Canvas(columns, rows);
  const px = (
    x: number,
  ) => (xHigh === xLow ? 0 : Math.round(((x - xLow) / (xHigh - xLow)) * (columns * 2 - 1)));
  const py = (y: number) => Math.round(((high - scale(y)) / (high - low)) * (rows * 4 - 1));
  series.forEach(({ points }, s) => {
    let last: [number, number] | undefined;
    for (const p of points) {
      // A line has a gap where a value is NaN; on a logarithmic axis values ≤ 0 are skipped.
      if (!isUsable(p)) {
        if (!Number.isFinite(p.y)) last = undefined;
        continue;
      }
      const at: [number, number] = [px(p.x), py(p.y)];
      grid.line(last ?? at, at, s);
      last = at;
      for (const edge of [p.min, p.max]) if (inBand(edge)) grid.dot(px(p.x), py(edge), s);
    }
  });
  const lines = [paint(escapeControl(options.title), "bold", options.color)];
  for (let r = 0; r < rows; r++) {
    lines.push(
      `${pad(labels[r]!, gutter, "right")} ${labels[r] === "" ? "│" : "┤"}${
        grid.row(r, options.color)
      }`,
    );
  }
  const right = number(xHigh);
  lines.push(`${" ".repeat(gutter)} └${"─".repeat(columns)}`);
  const left = `${number(xLow)} ${escapeControl(options.xLabel)}`;
  lines.push(`${" ".repeat(gutter + 2)}${pad(left, columns - widthOf(right))}${right}`);
  if (series.length > 1) {
    lines.push(
      series.map((s, i) => paint(`── ${escapeControl(s.name)}`, seriesStyle(i), options.color))
        .join("   "),
    );
  }
  return `${lines.map((l) => l.trimEnd()).join("\n")}\n`;
}

function seriesStyle(index: number): Style {
  return SERIES_STYLES[index % SERIES_STYLES.length]!;
}

/** Minimum and maximum; widened when they are equal. */
function range(values: readonly number[], widen: boolean): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (widen && low === high) {
    return [low - Math.max(Math.abs(low) * 0.1, 0.5), high + Math.max(Math.abs(high) * 0.1, 0.5)];
  }
  return [low, high];
}

class Canvas {
  readonly #cells: Uint8Array;
  readonly #owner: Int8Array;
  readonly #columns: number;

  constructor(columns: number, rows: number) {
    this.#columns = columns;
    this.#cells = new Uint8Array(columns * rows);
    this.#owner = new Int8Array(columns * rows).fill(-1);
  }

  dot(x: number, y: number, series: number): void {
    const cell = (y >> 2) * this.#columns + (x >> 1);
    this.#cells[cell]! |= DOTS[(x & 1) as 0 | 1][(y & 3) as 0 | 1 | 2 | 3];
    this.#owner[cell] = series;
  }

  /** Bresenham, in dots. */
  line([x0, y0]: [number, number], [x1, y1]: [number, number], series: number): void {
    const dx = Math.abs(x1 - x0);
    const dy = -Math.abs(y1 - y0);
    const sx = x0 < x1 ? 1 : -1;
    const sy = y0 < y1 ? 1 : -1;
    let error = dx + dy;
    for (let x = x0, y = y0;;) {
      this.dot(x, y, series);
      if (x === x1 && y === y1) return;
      const twice = 2 * error;
      if (twice >= dy) {
        error += dy;
        x += sx;
      }
      if (twice <= dx) {
        error += dx;
        y += sy;
      }
    }
  }

  row(r: number, color: boolean): string {
    let out = "";
    // One colour sequence per run of cells of the same series keeps the output small.
    let stretch = "";
    let owner = -1;
    for (let c = 0; c <= this.#columns; c++) {
      const cell = r * this.#columns + c;
      const bits = c < this.#columns ? this.#cells[cell]! : 0;
      const series = bits === 0 ? -1 : this.#owner[cell]!;
      if (series !== owner) {
        out += owner < 0 ? stretch : paint(stretch, seriesStyle(owner), color);
        stretch = "";
        owner = series;
      }
      if (c < this.#columns) stretch += bits === 0 ? " " : String.fromCharCode(0x2800 + bits);
    }
    return out + stretch;
  }
}

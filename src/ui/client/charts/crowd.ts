/**
 * Very many lines in one chart, drawn as paths of our own, because each series of uPlot costs a
 * column over every other's x.
 */
import uPlot from "npm:uplot@1.6.32";
import { h } from "../parts/dom.ts";
import type { Column } from "./smoothing.ts";

/** Positions on the x axis for the keyboard cursor. */
const PLACES = 240;
/** A line counts as pointed at within this many pixels. */
const REACH = 40;

export interface CrowdLine {
  label: string;
  color: string;
  x: readonly number[];
  y: Column;
}

export class Crowd {
  /** The part of the x axis that is shown. */
  view: [from: number, to: number];

  #canvas: HTMLCanvasElement | undefined;
  /** What the canvas shows: it is drawn again only for something else. */
  #marked = "";

  constructor(readonly lines: readonly CrowdLine[], readonly log: boolean) {
    let [from, to] = [Infinity, -Infinity];
    for (const { x } of lines) {
      from = Math.min(from, x[0] ?? Infinity);
      to = Math.max(to, x.at(-1) ?? -Infinity);
    }
    this.view = from < to ? [from, to] : [from - 0.5, from + 0.5];
  }

  /** Data for uPlot, which then draws only the axes. */
  data(): uPlot.AlignedData {
    const [from, to] = this.view;
    const x = Array.from({ length: PLACES }, (_, i) => from + (to - from) * i / (PLACES - 1));
    return [x, x.map(() => null)];
  }

  /** Range of the y axis for the values in view. */
  range(): uPlot.Range.MinMax {
    let [low, high] = [Infinity, -Infinity];
    const [from, to] = this.view;
    for (const { x, y } of this.lines) {
      for (let i = 0; i < x.length; i++) {
        const v = y[i]!;
        // Points just outside of the view are the ends of segments inside it.
        if (v === null || x[i + 1]! < from || x[i - 1]! > to) continue;
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
    if (low > high) return [this.log ? 0.1 : 0, 1];
    return this.log ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeNum(low, high, 0.05, true);
  }

  /** Converts values to pixels of a box. */
  #scales(
    u: uPlot,
    { left, top, width, height }: { left: number; top: number; width: number; height: number },
  ) {
    const to = this.log ? Math.log10 : (v: number) => v;
    const { x, y } = u.scales;
    const [low, high] = [to(y!.min!), to(y!.max!)];
    const across = x!.distr === 3 ? Math.log10 : (v: number) => v;
    const [first, last] = [across(x!.min!), across(x!.max!)];
    return {
      px: (v: number) => left + (across(v) - first) / (last - first) * width,
      py: (v: number) => top + (1 - (to(v) - low) / (high - low)) * height,
    };
  }

  draw(u: uPlot): void {
    const { ctx, bbox } = u;
    const { px, py } = this.#scales(u, bbox);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = Math.max(0.15, Math.min(0.6, 8 / Math.sqrt(this.lines.length)));
    ctx.lineWidth = devicePixelRatio;
    for (const line of this.lines) trace(ctx, line, px, py);
    ctx.restore();
  }

  /** The line nearest to a point of the plot, in pixels of the page. */
  nearest(u: uPlot, left: number, top: number): number | undefined {
    const at = u.posToVal(left, "x");
    const { py } = this.#scales(u, {
      left: 0,
      top: 0,
      ...sizeOf(u),
    });
    let found: number | undefined;
    let least = REACH;
    this.lines.forEach((line, i) => {
      const y = valueAt(line, at);
      const away = y === undefined ? Infinity : Math.abs(py(y) - top);
      if (away < least) [found, least] = [i, away];
    });
    return found;
  }

  /** Draws one line over all others; undefined: none. */
  mark(u: uPlot, index: number | undefined, ink: string): void {
    const { width, height } = sizeOf(u);
    const { x, y } = u.scales;
    const shown = index === undefined
      ? ""
      : [index, ink, width, height, x!.min, x!.max, y!.min, y!.max].join();
    if (this.#marked === shown) return;
    this.#marked = shown;
    if (this.#canvas === undefined || this.#canvas.parentElement !== u.over) {
      u.over.querySelector("canvas.marked")?.remove();
      u.over.prepend(this.#canvas = h("canvas", { class: "marked" }));
    }
    const canvas = this.#canvas;
    const [across, down] = [width, height].map((n) => Math.round(n * devicePixelRatio));
    // A canvas that gets a size is made anew.
    if (canvas.width !== across) canvas.width = across!;
    if (canvas.height !== down) canvas.height = down!;
    const ctx = canvas.getContext("2d")!;
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    if (index === undefined) return;
    const { px, py } = this.#scales(u, { left: 0, top: 0, width, height });
    ctx.lineWidth = 4;
    const line = this.lines[index]!;
    trace(ctx, { ...line, color: ink }, px, py);
    ctx.lineWidth = 2;
    trace(ctx, line, px, py);
  }
}

/** Of the plot, in pixels of the page: known without a layout. */
function sizeOf({ bbox }: uPlot): { width: number; height: number } {
  return { width: bbox.width / devicePixelRatio, height: bbox.height / devicePixelRatio };
}

function trace(
  ctx: CanvasRenderingContext2D,
  { x, y, color }: CrowdLine,
  px: (v: number) => number,
  py: (v: number) => number,
): void {
  ctx.strokeStyle = color;
  ctx.beginPath();
  let drawn = 0;
  for (let i = 0; i < x.length; i++) {
    const v = y[i]!;
    if (v === null) continue;
    // A gap stays a gap.
    if (drawn++ === 0 || y[i - 1] === null) ctx.moveTo(px(x[i]!), py(v));
    else ctx.lineTo(px(x[i]!), py(v));
  }
  // A single point is a dot.
  if (drawn === 1) {
    const i = y.findIndex((v) => v !== null);
    ctx.arc(px(x[i]!), py(y[i]!), 2, 0, 7);
  }
  ctx.stroke();
}

/**
 * The indices of the two points around a position: the last at or before it, and the next;
 * undefined outside the line.
 */
export function around(x: ArrayLike<number>, at: number): [low: number, high: number] | undefined {
  if (x.length === 0 || at < x[0]! || at > x[x.length - 1]!) return undefined;
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle]! <= at) low = middle;
    else high = middle;
  }
  return [low, high];
}

/** The interpolated value between two points of a line. */
export function valueAt({ x, y }: Pick<CrowdLine, "x" | "y">, at: number): number | undefined {
  const place = around(x, at);
  if (place === undefined) return undefined;
  const [low, high] = place;
  const [a, b] = [y[low]!, y[high]!];
  if (a === null || b === null) return a ?? b ?? undefined;
  return x[high]! === x[low]! ? a : a + (b - a) * (at - x[low]!) / (x[high]! - x[low]!);
}

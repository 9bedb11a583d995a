/**
 * A chart as a file for a paper or a talk: title, axes, lines, bands and legend, at the width of a
 * page, as SVG or as PNG of 300 dots per inch. A script of its own, loaded when the first chart is
 * saved. Always on white: it is printed.
 */
import "../parts/common.ts";
import { ticksOf } from "../../../base/time/ticks.ts";

export interface FigureLine {
  label: string;
  /** `#rrggbb` */
  color: string;
  /** Overwritten by a later attempt. */
  faded: boolean;
  /** The band between its lower and upper edge is drawn. */
  banded: boolean;
  /** As of a chart's line. */
  table: readonly (readonly (number | null)[])[];
}

export interface Figure {
  title: string;
  xName: string;
  log: boolean;
  logX: boolean;
  xText(value: number): string;
  yText(value: number): string;
  x: readonly [from: number, to: number];
  y: readonly [from: number, to: number];
  lines: readonly FigureLine[];
}

type Point = readonly [x: number, y: number];

/** In points: 6.5 inches, the text width of most papers, and a golden height. */
const [WIDTH, PLOT_HEIGHT, LEFT, RIGHT, TOP] = [468, 260, 52, 12, 30];
const AXIS = 34;
const [ROW, LEGEND_GAP] = [14, 18];
/** Letters of the legend are about so wide. */
const LETTER = 5;
const FONT = "Helvetica, Arial, sans-serif";
/** Points to pixels of 300 dots per inch. */
const PNG_SCALE = 300 / 72;
const [INK, GRID] = ["#1a1e24", "#dfe3e8"];

/** Draws, in points from the top left. */
interface Pen {
  path(points: readonly Point[], color: string, width: number, dash?: number[]): void;
  area(points: readonly Point[], color: string, opacity: number): void;
  text(
    text: string,
    at: Point,
    size: number,
    align: "start" | "middle" | "end",
    bold?: boolean,
  ): void;
  /** What `inside` draws is cut at this box. */
  clipped(x: number, y: number, width: number, height: number, inside: () => void): void;
}

/** The same hue, dark enough on paper: the colours of the dark theme are for dark ground. */
function onPaper(color: string): string {
  const luminance = (rgb: number[]) =>
    rgb.map((c) => c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i]!, 0);
  let rgb = [1, 3, 5].map((i) => Number.parseInt(color.slice(i, i + 2), 16));
  while (1.05 / (luminance(rgb) + 0.05) < 3) rgb = rgb.map((c) => Math.floor(c * 0.93));
  return `#${rgb.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

export async function figureFile(format: "svg" | "png", given: Figure): Promise<Blob> {
  const figure = {
    ...given,
    lines: given.lines.map((line) => ({ ...line, color: onPaper(line.color) })),
  };
  const legend = legendOf(figure.lines);
  const height = TOP + PLOT_HEIGHT + AXIS + legend.rows * ROW + 8;
  if (format === "svg") {
    const pen = new SvgPen();
    draw(pen, figure, legend);
    const text =
      `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}pt" height="${height}pt" viewBox="0 0 ${WIDTH} ${height}" font-family="${FONT}">` +
      `<title>${escaped(figure.title)}</title><rect width="100%" height="100%" fill="#ffffff"/>${
        pen.parts.join("")
      }</svg>\n`;
    return new Blob([text], { type: "image/svg+xml" });
  }
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(WIDTH * PNG_SCALE);
  canvas.height = Math.round(height * PNG_SCALE);
  const ctx = canvas.getContext("2d")!;
  ctx.scale(PNG_SCALE, PNG_SCALE);
  ctx.fillStyle = "#ffffff";
  ctx.fillRect(0, 0, WIDTH, height);
  draw(new CanvasPen(ctx), figure, legend);
  return await new Promise((resolve, reject) =>
    canvas.toBlob((blob) =>
      blob === null ? reject(new Error("the picture could not be made")) : resolve(blob)
    )
  );
}

interface Legend {
  rows: number;
  entries: { line: FigureLine; at: Point }[];
}

/** Entries in rows, from the left. */
function legendOf(lines: readonly FigureLine[]): Legend {
  let [x, row] = [LEFT, 0];
  const entries = lines.map((line) => {
    const width = LEGEND_GAP + 6 + line.label.length * LETTER;
    if (x > LEFT && x + width > WIDTH - RIGHT) [x, row] = [LEFT, row + 1];
    const at: Point = [x, row];
    x += width + 12;
    return { line, at };
  });
  // One line is named by the title.
  return lines.length < 2 ? { rows: 0, entries: [] } : { rows: row + 1, entries };
}

function draw(
  pen: Pen,
  { title, xName, x, y, log, logX, xText, yText, lines }: Figure,
  legend: Legend,
): void {
  const scale = (
    log: boolean,
    [from, to]: readonly [number, number],
    begin: number,
    end: number,
  ) => {
    const place = log ? Math.log10 : (v: number) => v;
    const [a, b] = [place(from), place(to)];
    const decades = ticksOf(a, b, 5).filter(Number.isInteger).map((n) => 10 ** n);
    return {
      at: (v: number) => begin + (place(v) - a) / ((b - a) || 1) * (end - begin),
      ticks: log && decades.length > 1 ? decades : ticksOf(from, to, 5),
    };
  };
  const [right, bottom] = [WIDTH - RIGHT, TOP + PLOT_HEIGHT];
  const across = scale(logX, x, LEFT, right);
  const up = scale(log, y, bottom, TOP);
  pen.text(title, [LEFT, 18], 12, "start", true);
  for (const tick of up.ticks) {
    pen.path([[LEFT, up.at(tick)], [right, up.at(tick)]], GRID, 0.5);
    pen.text(yText(tick), [LEFT - 5, up.at(tick) + 3], 8, "end");
  }
  for (const tick of across.ticks) {
    pen.path([[across.at(tick), TOP], [across.at(tick), bottom]], GRID, 0.5);
    pen.text(xText(tick), [across.at(tick), bottom + 12], 8, "middle");
  }
  pen.text(xName, [(LEFT + right) / 2, bottom + 26], 9, "middle");
  pen.clipped(LEFT, TOP, right - LEFT, PLOT_HEIGHT, () => {
    for (const { table, color, banded } of lines) if (banded) bands(pen, table, color);
    for (const { table, color, faded } of lines) {
      for (const part of partsOf(table[0]!, table[4]!)) {
        pen.path(part, color, faded ? 0.8 : 1.25, faded ? [4, 3] : []);
      }
    }
  });
  pen.path([[LEFT, TOP], [LEFT, bottom], [right, bottom]], INK, 0.75);
  for (const { line, at: [left, row] } of legend.entries) {
    const middle = bottom + AXIS + row * ROW + 4;
    pen.path(
      [[left, middle], [left + LEGEND_GAP - 4, middle]],
      line.color,
      2,
      line.faded ? [4, 3] : [],
    );
    pen.text(line.label, [left + LEGEND_GAP, middle + 3], 8.5, "start");
  }

  function bands(pen: Pen, table: FigureLine["table"], color: string): void {
    const both = table[0]!.map((_, i) => table[1]![i] ?? null).map((v, i) =>
      table[2]![i] === null ? null : v
    );
    const upper = partsOf(table[0]!, both.map((v, i) => v === null ? null : table[2]![i] ?? null));
    partsOf(table[0]!, both).forEach((lower, i) => {
      if (lower.length > 1) pen.area([...lower, ...upper[i]!.toReversed()], color, 0.18);
    });
  }

  /** A line without its gaps; a single point is a short dash. */
  function partsOf(xs: readonly (number | null)[], values: readonly (number | null)[]): Point[][] {
    const parts: Point[][] = [];
    let open = false;
    xs.forEach((v, i) => {
      const value = values[i] ?? null;
      if (value === null || (log && value <= 0)) return void (open = false);
      if (!open) parts.push([]);
      open = true;
      parts.at(-1)!.push([across.at(v!), up.at(value)]);
    });
    return parts.map((part) =>
      part.length > 1 ? part : [[part[0]![0] - 1, part[0]![1]], [part[0]![0] + 1, part[0]![1]]]
    );
  }
}

function escaped(text: string): string {
  // No control characters: XML has no way to write them.
  // deno-lint-ignore no-control-regex
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "").replace(
    /[&<>"']/g,
    (c) => `&#${c.charCodeAt(0)};`,
  );
}

const two = (n: number) => String(Number(n.toFixed(2)));
const listOf = (points: readonly Point[]) =>
  points.map(([x, y]) => `${two(x)},${two(y)}`).join(" ");

class SvgPen implements Pen {
  readonly parts: string[] = [];
  #clips = 0;

  path(points: readonly Point[], color: string, width: number, dash: number[] = []): void {
    const dashes = dash.length === 0 ? "" : ` stroke-dasharray="${dash.join(" ")}"`;
    this.parts.push(
      `<polyline points="${
        listOf(points)
      }" fill="none" stroke="${color}" stroke-width="${width}" stroke-linejoin="round"${dashes}/>`,
    );
  }
  area(points: readonly Point[], color: string, opacity: number): void {
    this.parts.push(
      `<polygon points="${listOf(points)}" fill="${color}" fill-opacity="${opacity}"/>`,
    );
  }
  text(text: string, [x, y]: Point, size: number, align: string, bold = false): void {
    const weight = bold ? ' font-weight="600"' : "";
    this.parts.push(
      `<text x="${two(x)}" y="${
        two(y)
      }" font-size="${size}" text-anchor="${align}" fill="${INK}"${weight}>${escaped(text)}</text>`,
    );
  }
  clipped(x: number, y: number, width: number, height: number, inside: () => void): void {
    const id = `clip${++this.#clips}`;
    this.parts.push(
      `<clipPath id="${id}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath><g clip-path="url(#${id})">`,
    );
    inside();
    this.parts.push("</g>");
  }
}

class CanvasPen implements Pen {
  constructor(readonly ctx: CanvasRenderingContext2D) {}

  #trace(points: readonly Point[]): void {
    this.ctx.beginPath();
    points.forEach(([x, y], i) => i === 0 ? this.ctx.moveTo(x, y) : this.ctx.lineTo(x, y));
  }
  path(points: readonly Point[], color: string, width: number, dash: number[] = []): void {
    this.#trace(points);
    this.ctx.setLineDash(dash);
    this.ctx.lineJoin = "round";
    this.ctx.lineWidth = width;
    this.ctx.strokeStyle = color;
    this.ctx.stroke();
  }
  area(points: readonly Point[], color: string, opacity: number): void {
    this.#trace(points);
    this.ctx.globalAlpha = opacity;
    this.ctx.fillStyle = color;
    this.ctx.fill();
    this.ctx.globalAlpha = 1;
  }
  text(
    text: string,
    [x, y]: Point,
    size: number,
    align: "start" | "middle" | "end",
    bold = false,
  ): void {
    this.ctx.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    this.ctx.textAlign = align === "middle" ? "center" : align;
    this.ctx.fillStyle = INK;
    this.ctx.fillText(text, x, y);
  }
  clipped(x: number, y: number, width: number, height: number, inside: () => void): void {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(x, y, width, height);
    this.ctx.clip();
    inside();
    this.ctx.restore();
  }
}

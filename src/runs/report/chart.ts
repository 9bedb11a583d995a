/** A chart as SVG with a table of its values: without scripts and further files. Pure. */
import { html } from "hono/html";
import { ticksOf } from "../../base/time/ticks.ts";
import { number } from "../../base/text/format.ts";
import { all, type Html, table } from "./html_parts.ts";

export interface ReportPoint {
  x: number;
  y: number;
  /** The band around it, if it is a mean of runs. */
  low?: number;
  high?: number;
  /** Number of runs that have a value there. */
  runs?: number;
}

export interface ReportCurve {
  name: string;
  /** Index of the run or group, for its colour. */
  of: number;
  points: readonly ReportPoint[];
  /** A later attempt wrote this part again. */
  overwritten: boolean;
}

export interface ReportChart {
  title: string;
  /** Unit of the x axis. */
  x: string;
  /** Meaning of the band, or of the points. */
  caption: string;
  log: boolean;
  curves: readonly ReportCurve[];
  /** Runs or groups without a point of it. */
  without: readonly string[];
}

/**
 * Distinguishable also with colour blindness, on light and on dark background (Okabe and Ito's,
 * without black and yellow).
 */
const COLOURS = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#e69f00",
  "#7a5ad0",
  "#8c6d31",
];
/** For curves beyond the number of colours. */
const DASHES = ["", "6 3", "2 2", "8 3 2 3"];

export const colourOf = (of: number): string => COLOURS[of % COLOURS.length]!;
export const dashOf = (of: number): string =>
  DASHES[Math.floor(of / COLOURS.length) % DASHES.length]!;

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 260, 56, 22, 10, 34];
/** Rows of the table behind a chart. */
const ROWS = 12;

interface Axis {
  at(value: number): number;
  ticks: number[];
}

function axis(
  values: readonly number[],
  from: number,
  to: number,
  wanted: number,
  log: boolean,
): Axis {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (log) {
    const [a, b] = [Math.log10(low), Math.log10(high)];
    const span = b - a || 1;
    const ticks = ticksOf(a, b, wanted).filter(Number.isInteger).map((n) => 10 ** n);
    return {
      at: (value) => from + (Math.log10(value) - a) / span * (to - from),
      ticks: ticks.length > 0 ? ticks : [low, high],
    };
  }
  if (low === high) {
    [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  }
  return {
    at: (value) => from + (value - low) / (high - low) * (to - from),
    ticks: ticksOf(low, high, wanted),
  };
}

const place = (n: number) => n.toFixed(1);

export function chart({ title, x, caption, log, curves, without }: ReportChart): Html {
  const shown = curves.map((curve) => ({
    ...curve,
    points: curve.points.filter(({ x, y }) =>
      Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0)
    ),
  })).filter(({ points }) => points.length > 0);
  const missing = without.length > 0
    ? html`
      No point of it: ${without.join(", ")}.
    `
    : "";
  if (shown.length === 0) {
    return html`
      <figure>
        <h3>${title}</h3>
        <figcaption>No points to draw. ${caption}${missing}</figcaption>
      </figure>
    `;
  }
  const banded = ({ low, high }: ReportPoint) =>
    low !== undefined && high !== undefined && (!log || low > 0);
  const across = axis(
    shown.flatMap(({ points }) => points.map(({ x }) => x)),
    LEFT,
    WIDTH - RIGHT,
    5,
    false,
  );
  const up = axis(
    shown.flatMap(({ points }) =>
      points.flatMap((p) => banded(p) ? [p.y, p.low!, p.high!] : [p.y])
    ),
    ...[HEIGHT - BOTTOM, TOP, 4, log] as const,
  );
  const grid = [
    ...up.ticks.map((tick) =>
      html`
        <line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${place(
          up.at(tick),
        )}" y2="${place(up.at(tick))}" />
        <text x="${LEFT - 6}" y="${place(up.at(tick) + 4)}" text-anchor="end">${number(tick)}</text>
      `
    ),
    ...across.ticks.map((tick) =>
      html`<text x="${place(across.at(tick))}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${
        number(tick)
      }</text>`
    ),
  ];
  const lines = shown.map(({ points, of, overwritten }) => {
    const path = points.map((p, i) =>
      `${i === 0 ? "M" : "L"}${place(across.at(p.x))} ${place(up.at(p.y))}`
    ).join("");
    // A single point is drawn as a dot.
    const dot = points.length > 1 ? "" : html`
      <circle cx="${place(across.at(points[0]!.x))}" cy="${place(
        up.at(points[0]!.y),
      )}" r="3" fill="${colourOf(of)}" />
    `;
    const around = points.filter(banded);
    const side = (key: "low" | "high") => (p: ReportPoint) =>
      `${place(across.at(p.x))},${place(up.at(p[key]!))}`;
    const band = around.length < 2 ? "" : html`
      <polygon class="band" fill="${colourOf(of)}" points="${[
        ...around.map(side("high")),
        ...around.toReversed().map(side("low")),
      ].join(" ")}" />
    `;
    return html`${band}<path class="curve${overwritten ? " old" : ""}" stroke="${
      colourOf(of)
    }" stroke-dasharray="${dashOf(of)}" d="${path}"/>${dot}`;
  });
  const means = shown.map(({ name, points, overwritten }) =>
    `${name}${overwritten ? " (overwritten)" : ""}: from ${number(points[0]!.y)} to ${
      number(points.at(-1)!.y)
    }`
  );
  return html`
    <figure>
      <h3>${title}</h3>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title} by ${x}. ${means.join(
        "; ",
      )}">
    ${all(grid)}<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT -
      3}" text-anchor="middle">${x}</text>${all(
        lines,
      )}</svg>
      ${caption === "" && missing === "" ? "" : html`<figcaption>${caption}${missing}</figcaption>`}
      <details><summary>Values</summary>${all(shown.map((curve) => valuesOf(curve, x)))}</details>
    </figure>
  `;
}

/** Some of the points of a curve, including its first and last. */
function valuesOf({ name, points, overwritten }: ReportCurve, x: string): Html {
  const last = points.length - 1;
  const rows = Array.from(
    { length: Math.min(ROWS, points.length) },
    (_, i) => points[last === 0 ? 0 : Math.round(i * last / (Math.min(ROWS, points.length) - 1))]!,
  );
  const grouped = points.some(({ low }) => low !== undefined);
  return html`<h4>${name}${
    overwritten ? ", overwritten" : ""
  }, ${rows.length} of ${points.length} points</h4>${
    table(
      [x, "value", ...(grouped ? ["low", "high", "runs"] : [])],
      rows.map((p) => ({
        name: number(p.x),
        cells: [
          number(p.y),
          ...(grouped ? [number(p.low ?? p.y), number(p.high ?? p.y), String(p.runs ?? "")] : []),
        ],
      })),
    )
  }`;
}

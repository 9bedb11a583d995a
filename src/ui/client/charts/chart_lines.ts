/** The lines of a chart from the points of its runs. Pure. */
import type uPlot from "npm:uplot@1.6.32";
import type { SeriesColumns } from "../../api/page_json.ts";
import { type Band, lastTogether, together } from "../../../telemetry/series/groups.ts";
import { isCrowd } from "../parts/early.ts";
import {
  ascending,
  type Column,
  lastOf,
  numbers,
  picked,
  piecesOf,
  positive,
  smooth,
  spread,
  withExtremes,
} from "./smoothing.ts";

export interface DataSet {
  runId: string;
  label: string;
  color: string;
  /** `over`: position of each bucket on the x axis, if that is another metric. */
  columns: SeriesColumns & { over?: number[] };
  startedAt: number | null;
  /** Label of its group, whose runs are drawn as one line. */
  group?: string;
}
/** Step or episode, time since the start, time of day, or another metric's value. */
export type XMode = "index" | "relative" | "wall" | `metric:${string}`;
/** The metric of the x axis, if it is one. */
export const metricOf = (x: XMode): string | undefined =>
  x.startsWith("metric:") ? x.slice("metric:".length) : undefined;
export interface ChartStyle {
  x: XMode;
  smoothing: number;
  /** Logarithmic y axis, x axis. */
  log: boolean;
  logX: boolean;
  /** Labels of lines that are not drawn. */
  hidden: readonly string[];
  /** Also draws points that a later attempt overwrote, faded. */
  overwritten: boolean;
  band: Band;
}
/** The view of one chart besides what all share. */
export interface Own {
  /** Ends of the y axis; null: by the data. */
  y: [low: number | null, high: number | null];
  /** The y axis leaves out the outermost values. */
  trimmed: boolean;
  /** What it has instead of what all charts have. */
  style: Partial<Pick<ChartStyle, "x" | "smoothing" | "log" | "logX">>;
}
export const OWN_AS_OTHERS: Own = { y: [null, null], trimmed: false, style: {} };
/** A line with its band, as drawn. */
export interface Line {
  label: string;
  color: string;
  /** Number of runs of a group; 1 for a run. */
  runs: number;
  /** A part that a later attempt overwrote. */
  faded?: boolean;
  /** The values before smoothing are drawn, too. */
  raw?: boolean;
  /** The line is smoothed. */
  smoothed: boolean;
  /** The newest value, not smoothed; for a group the value at the end of its curve. */
  last: number | null;
  /** The runs of a group that reach the end of its curve. */
  lastRuns: number;
  /**
   * Columns: x, lower and upper edge, the values before smoothing, the line itself, the number of
   * runs at each x.
   */
  table: uPlot.AlignedData;
}
/** Positions of a series on the x axis. */
export function xOf(set: Pick<DataSet, "columns" | "startedAt">, mode: XMode): number[] {
  const { last_x, at, step, over } = set.columns;
  if (over !== undefined) return ascending(over);
  // Metrics are drawn over the worker's steps, so that runs which log at other intervals can be
  // compared.
  if (mode === "index") return ascending(spread(last_x.map((x, i) => step[i] ?? x)));
  const from = mode === "relative" ? set.startedAt ?? at[0] ?? 0 : 0;
  return ascending(at.map((t) => (t - from) / 1000));
}

/**
 * A series with fewer points is not smoothed: an average would move its curve instead of calming
 * it.
 */
const SPARSE = 50;
export const isSparse = ({ count }: SeriesColumns): boolean =>
  count.reduce((a, b) => a + b, 0) < SPARSE;

/** The middle of a line: smoothed, or with the extremes of its buckets where no band shows them. */
function middleOf(
  columns: SeriesColumns,
  keep: (v: Column) => Column,
  smoothing: number,
  bare: boolean,
) {
  const mean = keep(numbers(columns.mean));
  const weight = isSparse(columns) ? 0 : smoothing;
  const y = weight > 0 ? smooth(mean, weight) : bare ? keep(withExtremes(columns)) : mean;
  return { mean, y, smoothed: weight > 0 };
}

/**
 * One line per run, or per group; after them, the overwritten parts. @param muted colour of a lone
 * run's overwritten part
 */
export function linesOf(all: readonly DataSet[], style: ChartStyle, muted: string): Line[] {
  const keep = style.log ? positive : (v: Column) => v;
  const sets = all.map((set) => ({
    ...set,
    columns: picked(set.columns, ({ overwritten }) => !overwritten),
  }))
    .filter((set) => set.columns.last_x.length > 0);
  const faded = !style.overwritten
    ? []
    : all.filter((set) => set.group === undefined).flatMap((set) =>
      piecesOf(set.columns).filter(({ overwritten }) => overwritten[0]).map((columns): Line => {
        const { mean, y, smoothed } = middleOf(columns, keep, style.smoothing, false);
        const none = mean.map(() => null);
        return {
          label: `${all.length === 1 ? "" : `${set.label}, `}attempt ${
            columns.attempt[0]
          }, overwritten`,
          // With several runs the colour distinguishes runs; with one, it distinguishes the
          // overwritten part.
          color: all.length === 1 ? muted : set.color,
          ...{ runs: 1, lastRuns: 1, faded: true, smoothed },
          last: lastOf(columns),
          table: [
            xOf({ ...set, columns }, style.x),
            none,
            none,
            mean,
            y,
            none,
          ] as uPlot.AlignedData,
        };
      })
    );
  const groups = new Map<string | DataSet, DataSet[]>();
  for (const set of sets) {
    const key = set.group ?? set;
    const members = groups.get(key);
    if (members === undefined) groups.set(key, [set]);
    else members.push(set);
  }
  const bare = isCrowd([...groups]);
  return [
    ...[...groups].map(([key, members]): Line => {
      const { color } = members[0]!;
      const curves = members.map((set) => ({
        x: xOf(set, style.x),
        ...middleOf(set.columns, keep, style.smoothing, bare && members.length === 1),
      }));
      if (typeof key === "string" && members.length > 1) {
        const { x, middle, low, high, count } = together(curves, style.band);
        const end = lastTogether(curves.map(({ x, mean }) => ({ x, y: mean })), style.band);
        return {
          label: key,
          color,
          runs: members.length,
          smoothed: curves.some(({ smoothed }) => smoothed),
          last: end?.middle ?? null,
          lastRuns: end?.count ?? 0,
          table: [
            x,
            keep(low),
            keep(high),
            middle.map(() => null),
            middle,
            count,
          ] as uPlot.AlignedData,
        };
      }
      const { x, mean, y, smoothed } = curves[0]!;
      const { columns, label } = members[0]!;
      const none = mean.map(() => null);
      return {
        label: typeof key === "string" ? key : label,
        color,
        ...{ runs: 1, lastRuns: 1, smoothed },
        raw: smoothed && sets.length === 1,
        last: lastOf(columns),
        table: [
          x,
          keep(numbers(columns.min)),
          keep(numbers(columns.max)),
          mean,
          y,
          none,
        ] as uPlot.AlignedData,
      };
    }),
    ...faded,
  ].map((line) =>
    style.logX && style.x !== "wall" ? { ...line, table: rightOfZero(line.table) } : line
  );
}

/** A logarithmic x axis has no position for x ≤ 0. */
function rightOfZero(table: uPlot.AlignedData): uPlot.AlignedData {
  const kept = [...table[0].keys()].filter((i) => table[0][i]! > 0);
  return table.map((column) => kept.map((i) => column[i])) as uPlot.AlignedData;
}

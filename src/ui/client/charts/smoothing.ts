/** Arithmetic of charts on columns. Pure. */
import type { SeriesColumns } from "../../api/page_json.ts";

export type Column = (number | null)[];

/** A value that is no finite number is a gap in a line. */
export function numbers(values: readonly (number | string)[]): Column {
  return values.map((v) => typeof v === "number" && Number.isFinite(v) ? v : null);
}

/**
 * Exponential moving average, corrected for the bias towards zero at the start. It starts again
 * after a gap. @param weight of the past, from 0 to below 1
 */
export function smooth(values: Column, weight: number): Column {
  if (weight <= 0) return values;
  let sum = 0;
  let scale = 0;
  return values.map((v) => {
    if (v === null) {
      sum = scale = 0;
      return null;
    }
    sum = sum * weight + (1 - weight) * v;
    scale = scale * weight + (1 - weight);
    return sum / scale;
  });
}

/**
 * The means of buckets, but the highest and the lowest value where they occur, and the newest at
 * the end: a curve that is drawn from few buckets keeps what people look for.
 */
export function withExtremes({ mean, min, max, last }: SeriesColumns): Column {
  const values = numbers(mean);
  let [lowest, highest] = [-1, -1];
  const [lows, highs, lasts] = [numbers(min), numbers(max), numbers(last)];
  for (let i = 0; i < values.length; i++) {
    if (lows[i] !== null && (lowest < 0 || lows[i]! < lows[lowest]!)) lowest = i;
    if (highs[i] !== null && (highest < 0 || highs[i]! > highs[highest]!)) highest = i;
  }
  if (lowest >= 0) values[lowest] = lows[lowest]!;
  if (highest >= 0) values[highest] = highs[highest]!;
  const end = values.length - 1;
  if (end !== lowest && end !== highest && end >= 0) values[end] = lasts[end]!;
  return values;
}

/** A logarithmic axis has no position for values ≤ 0. */
export function positive(values: Column): Column {
  return values.map((v) => v !== null && v > 0 ? v : null);
}

/**
 * Points that were stored together may carry the same step: they are spread between the step before
 * and that one. @param steps ascending, or back after a restart
 */
export function spread(steps: readonly number[]): number[] {
  const xs = [...steps];
  for (let start = 0; start < steps.length;) {
    let end = start + 1;
    while (end < steps.length && steps[end] === steps[start]) end++;
    const before = steps[start - 1] ?? 0;
    const step = steps[start] ?? 0;
    for (let i = start; before < step && i < end; i++) {
      xs[i] = before + (step - before) * (i - start + 1) / (end - start);
    }
    start = end;
  }
  return xs;
}

/**
 * uPlot needs x ascending and unique; clocks may differ, and points of one millisecond have the
 * same time. Values are moved by the smallest difference that a double can represent at that size.
 */
export function ascending(xs: readonly number[]): number[] {
  let last = -Infinity;
  return xs.map((x) =>
    last = x > last ? x : last + Math.max(1e-9, Math.abs(last) * Number.EPSILON)
  );
}

/**
 * The values of another series of the same run when the last point of each bucket was recorded: at
 * its step, if both have steps and there was one attempt; else at its time; interpolated linearly;
 * undefined outside of the other's range.
 */
export function valuesAt(
  columns: SeriesColumns,
  other: SeriesColumns | undefined,
): (number | undefined)[] {
  const bySteps = [columns, other].every((c) =>
    c?.step.every((s) => s !== null) && c.attempt.every((a) => a === null)
  );
  const keys = (c: SeriesColumns) => bySteps ? c.step as number[] : c.at;
  const known = other === undefined ? [] : numbers(other.last)
    .flatMap((value, i) => value === null ? [] : [{ key: keys(other)[i]!, value }])
    .sort((a, b) => a.key - b.key);
  return keys(columns).map((key) => {
    const next = lowerBound(known, key);
    const [a, b] = [known[next - 1], known[next]];
    if (b?.key === key) return b.value;
    return a === undefined || b === undefined
      ? undefined
      : a.value + (b.value - a.value) * (key - a.key) / (b.key - a.key);
  });
}

/**
 * A series over another one of the same run instead of over steps, in the order of the other's
 * values. Buckets outside of the other's range are left out.
 */
export function overOther(
  columns: SeriesColumns,
  other: SeriesColumns | undefined,
): SeriesColumns & { over: number[] } {
  const placed = valuesAt(columns, other).flatMap((over, i) => {
    return over === undefined ? [] : [{ over, i }];
  }).sort((a, b) => a.over - b.over);
  const { name, ...rest } = columns;
  const ordered = Object.entries(rest).map(([k, v]) => [k, placed.map(({ i }) => v[i])]);
  return {
    name,
    ...Object.fromEntries(ordered),
    over: placed.map(({ over }) => over),
  } as ReturnType<typeof overOther>;
}

/**
 * The newest value; null if there is none. @param columns in the order of recording or, with
 * `over`, of its values
 */
export function lastOf({ last, at, over }: SeriesColumns & { over?: number[] }): number | null {
  const order = at.map((_, i) => i);
  if (over !== undefined) order.sort((a, b) => at[a]! - at[b]!);
  const values = numbers(last);
  return values[order.findLast((i) => values[i] !== null) ?? -1] ?? null;
}

/** The index of the first that is not below a key. */
function lowerBound(sorted: readonly { key: number }[], key: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The buckets for which `wanted` holds. */
export function picked(
  columns: SeriesColumns,
  wanted: (bucket: { attempt: number | null; overwritten: boolean }, i: number) => boolean,
): SeriesColumns {
  const { name, ...rest } = columns;
  const kept = columns.last_x.map((_, i) =>
    wanted({ attempt: rest.attempt[i]!, overwritten: rest.overwritten[i]! }, i)
  );
  if (kept.every((k) => k)) return columns;
  const of = <T>(values: readonly T[]) => values.filter((_, i) => kept[i]);
  return {
    name,
    ...Object.fromEntries(Object.entries(rest).map(([k, v]) => [k, of<unknown>(v)])),
  } as SeriesColumns;
}

/** Consecutive buckets of one attempt, all of them overwritten or none: in each, x ascends. */
export function piecesOf(columns: SeriesColumns): SeriesColumns[] {
  const { attempt, overwritten } = columns;
  if (attempt.every((a) => a === null)) return [columns];
  const key = (i: number) => `${attempt[i]} ${overwritten[i]}`;
  return [...new Set(attempt.map((_, i) => key(i)))].map((its) =>
    picked(columns, (_, i) => key(i) === its)
  );
}

/**
 * The numbers of the points between two positions on the x axis. A bucket of several points spans
 * from the position of the bucket recorded before it (anywhere, over another metric) to its own.
 * @param xs of each bucket's last point
 * @returns the first and the last, or undefined if nothing was recorded there
 */
export function pointsBetween(
  xs: readonly number[],
  { first_x, last_x }: { first_x: readonly number[]; last_x: readonly number[] },
  from: number,
  to: number,
): [number, number] | undefined {
  let first = Infinity;
  let last = -Infinity;
  let before = -Infinity;
  for (const i of last_x.map((_, i) => i).sort((a, b) => last_x[a]! - last_x[b]!)) {
    const [a, b, x] = [first_x[i]!, last_x[i]!, xs[i]!];
    const begin = a < b ? before : x;
    before = x;
    if (Math.max(begin, x) < from || Math.min(begin, x) > to) continue;
    first = Math.min(first, a);
    last = Math.max(last, b);
  }
  return first <= last ? [first, last] : undefined;
}

/** Values below which these shares of all are; null without values. */
export function quantiles(values: readonly number[], shares: readonly number[]): (number | null)[] {
  const sorted = Float64Array.from(values).sort();
  return shares.map((share) =>
    sorted.length === 0 ? null : sorted[Math.round(share * (sorted.length - 1))]!
  );
}

/**
 * What the page asks for besides the buckets it has: from its last one on, in its width. null:
 * everything, because the curve's buckets are not all of one width, or are too many or too few by
 * now.
 */
export function haveOf(
  columns: SeriesColumns | undefined,
  buckets: number,
): [from: number, width: number] | null {
  const { first_x = [], last_x = [], damaged = [], attempt = [] } = columns ?? {};
  const n = first_x.length;
  if (n < 2 || n > 1.5 * buckets || first_x[0] !== 1) return null;
  const width = last_x[0]!;
  if (width > 1 && n < buckets / 2) return null;
  if (damaged.includes(true) || attempt.some((a) => a !== null)) return null;
  return [first_x[n - 1]!, width];
}

/** The buckets that the page has, up to those that came. */
export function joined(
  before: SeriesColumns | undefined,
  came: SeriesColumns,
  have: readonly [from: number, width: number] | null,
): SeriesColumns {
  if (before === undefined || have === null || came.first_x[0] !== have[0]) return came;
  const kept = before.first_x.findIndex((x) => x >= have[0]);
  const { name, ...columns } = came;
  const both = Object.entries(columns).map(([column, values]) => [
    column,
    [...(before[column as "mean"] as unknown[]).slice(0, kept), ...values],
  ]);
  return { name, ...Object.fromEntries(both) } as SeriesColumns;
}

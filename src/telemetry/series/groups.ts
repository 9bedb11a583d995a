/** Groups runs, and combines several curves into one with its spread. Pure. */
import { natural } from "../../base/text/natural_order.ts";

/**
 * "": no groups; "name": the name without its seed; "parameters": all but the seed; "tags"; else a
 * parameter's name after "parameter:".
 */
export type GroupBy = string;
export interface Groupable {
  name: string;
  tags: readonly string[];
  parameters?: readonly { name: string; value: unknown }[];
}

const SEED = /(?:^|[._/-])(?:seed|run_name|exp_name|run_id)$/i;

/** Whether a parameter of this name tells repetitions apart, and nothing that one would choose. */
export const isSeed = (name: string): boolean => SEED.test(name);

/** At the end of a name, unless it is part of a number such as `0.003`, `.99` or `1e-3`. */
const SEED_AT_END = /(?:[_ ]|(?<!\de)-|(?<=[a-z])\.)+s?\d+$/i;

/**
 * `ppo-cartpole-seed3`, `ppo_s3` and `ppo-3` are `ppo…`; `CartPole-v1`, `lr0.003` and `lr1e-3`
 * stay.
 */
export function withoutSeed(name: string): string {
  const without = name.replace(/[-_. ]*(?:\bseed|(?<=[-_. ])seed)[-_=. ]*\d+/i, "").replace(
    SEED_AT_END,
    "",
  );
  return without === "" ? name : without;
}

const text = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);

/**
 * The group of each run, by its label; with "parameters" the label contains those that differ
 * between runs.
 */
export function groupsOf(runs: readonly Groupable[], by: GroupBy): string[] {
  if (by === "name") return runs.map(({ name }) => withoutSeed(name));
  if (by === "tags") return runs.map(({ tags }) => [...tags].sort().join(", ") || "no tag");
  const values = runs.map(({ parameters = [] }) =>
    new Map(parameters.map(({ name, value }) => [name, text(value)]))
  );
  const names = by.startsWith("parameter:")
    ? [by.slice("parameter:".length)]
    : [...new Set(values.flatMap((v) => [...v.keys()]))].filter((n) => !isSeed(n)).sort(natural);
  const differing = names.filter((n) => new Set(values.map((v) => v.get(n))).size > 1);
  const shown = differing.length > 0 || names.length !== 1 ? differing : names;
  return values.map((v) => shown.map((n) => `${n}=${v.get(n) ?? "–"}`).join(", ") || "all runs");
}

/**
 * Order of groups by their labels: parameter values by size, `lr=0.001` before `lr=0.01` and
 * `lr=3e-2`; everything else as names.
 */
export function groupOrder(a: string, b: string): number {
  const [x, y] = [a, b].map((label) =>
    label.split(", ").map((part) => part.slice(part.indexOf("=") + 1))
  );
  for (let i = 0; i < Math.min(x!.length, y!.length); i++) {
    const [u, v] = [x![i]!, y![i]!];
    const [m, n] = [u, v].map((text) => text.trim() === "" ? NaN : Number(text)) as [
      number,
      number,
    ];
    // Numbers come before other values.
    const order = Number.isNaN(m) !== Number.isNaN(n)
      ? Number(Number.isNaN(m)) - Number(Number.isNaN(n))
      : m === n || Number.isNaN(m)
      ? natural(u, v)
      : m - n;
    if (order !== 0) return order;
  }
  return natural(a, b);
}

export const BANDS = {
  sd: "± standard deviation",
  minmax: "minimum to maximum",
  ci95: "95 % confidence of the mean",
  iqm: "interquartile mean, 95 % bootstrap",
} as const;
export type Band = keyof typeof BANDS;

export interface Spread {
  middle: number;
  low: number;
  high: number;
}

/** Student's t for 95 %, both sides, by degrees of freedom 1 to 30; the normal value beyond. */
// deno-fmt-ignore
const T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
  2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];
const RESAMPLES = 200;

/**
 * Computed from differences to the first value: the mean of equal values is then exact, and their
 * deviation 0.
 */
const mean = (values: readonly number[]) => {
  const first = values[0]!;
  return first + values.reduce((sum, v) => sum + (v - first), 0) / values.length;
};

/** Weights of values in a mean, by rank; values before `from` and after the last have weight 0. */
interface Weights {
  from: number;
  of: Float64Array;
}

/**
 * Weights for the mean of the middle half; values partly in it count in part. @param times how
 * often the value of each rank occurs; `n` in total
 */
function interquartileWeights(times: ArrayLike<number>, n: number): Weights {
  let below = 0;
  const all = Float64Array.from(times, (k) => {
    const inside = Math.min(below + k, 0.75 * n) - Math.max(below, 0.25 * n);
    below += k;
    return Math.max(0, inside) / (0.5 * n);
  });
  const counts = (weight: number) => weight > 0;
  const from = all.findIndex(counts);
  return { from, of: all.slice(from, all.findLastIndex(counts) + 1) };
}

/** @param values one per run, at least one */
export function spreadOf(values: readonly number[], band: Band): Spread {
  const n = values.length;
  const middle = mean(values);
  if (band === "minmax" || n === 1) {
    return { middle, low: Math.min(...values), high: Math.max(...values) };
  }
  if (band === "iqm") return bootstrapped(values);
  const sd = Math.sqrt(values.reduce((sum, v) => sum + (v - middle) ** 2, 0) / (n - 1));
  const half = band === "sd" ? sd : (T95[n - 2] ?? 1.96) * sd / Math.sqrt(n);
  return { middle, low: middle - half, high: middle + half };
}

/** @param values at least one */
function bootstrapped(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const { whole, resamples } = resamplesOf(sorted.length);
  const meanBy = ({ from, of }: Weights) => {
    let sum = 0;
    for (let i = 0; i < of.length; i++) sum += sorted[from + i]! * of[i]!;
    return sum;
  };
  const means = Float64Array.from(resamples, meanBy).sort();
  return {
    middle: meanBy(whole),
    low: means[Math.floor(RESAMPLES * 0.025)]!,
    high: means[Math.ceil(RESAMPLES * 0.975) - 1]!,
  };
}

interface Resamples {
  whole: Weights;
  resamples: Weights[];
}

const resamplesByCount = new Map<number, Resamples>();

/**
 * The resamples of n values, as weights by rank. They do not depend on the values: a chart of 1000
 * runs computes them once, not for each place, and sorts only the values. They are always the same,
 * so that a chart that is drawn again does not flicker.
 */
function resamplesOf(n: number): Resamples {
  let found = resamplesByCount.get(n);
  if (found !== undefined) return found;
  let seed = 1;
  const drawn = () => {
    const times = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      // The high bits: the low bits of such a sequence repeat after few draws.
      times[Math.floor(seed / 2 ** 32 * n)]!++;
    }
    return times;
  };
  found = {
    whole: interquartileWeights(new Uint8Array(n).fill(1), n),
    resamples: Array.from({ length: RESAMPLES }, () => interquartileWeights(drawn(), n)),
  };
  // Bounded: for a thousand runs they take 0.8 MB.
  if (resamplesByCount.size >= 8) resamplesByCount.delete(resamplesByCount.keys().next().value!);
  resamplesByCount.set(n, found);
  return found;
}

/** y values; null: none. */
type Column = (number | null)[];

export interface Curve {
  x: readonly number[];
  y: Column;
}
export interface GroupCurve {
  x: number[];
  middle: Column;
  low: Column;
  high: Column;
  /** Number of runs that have a value there. */
  count: number[];
}

/** Number of places on the common x axis. */
const PLACES = 240;

/** A curve, from its first value to its last. `next`: the point before the place that is read. */
function linesOf(curves: readonly Curve[]) {
  return curves.map(({ x, y }) => {
    const first = y.findIndex((v) => v !== null);
    return { x, y, next: first, from: x[first]!, to: x[y.findLastIndex((v) => v !== null)]! };
  }).filter((line) => line.next >= 0);
}

/** The values at a place, which may not be before the one of an earlier call. */
function valuesAt(lines: ReturnType<typeof linesOf>, at: number): number[] {
  const values: number[] = [];
  for (const line of lines) {
    if (at < line.from || at > line.to) continue;
    while (line.x[line.next + 1]! <= at) line.next++;
    const i = line.next;
    const [a, b = null] = [line.y[i]!, line.y[i + 1]];
    const past = at - line.x[i]!;
    if (a === null || (b === null && past > 0)) continue;
    values.push(past === 0 ? a : a + (b! - a) * past / (line.x[i + 1]! - line.x[i]!));
  }
  return values;
}

/** Where the combined curve ends: its middle there, of the runs that are that long. */
export function lastTogether(
  curves: readonly Curve[],
  band: Band,
): { middle: number; count: number } | undefined {
  const lines = linesOf(curves);
  const values = valuesAt(lines, Math.max(...lines.map((l) => l.to)));
  return values.length === 0
    ? undefined
    : { middle: spreadOf(values, band).middle, count: values.length };
}

/**
 * Combines several curves into one, at places spread evenly over all of them. A curve counts
 * between its first and its last point, interpolated linearly; next to a point without a value it
 * has none.
 */
export function together(curves: readonly Curve[], band: Band): GroupCurve {
  const lines = linesOf(curves);
  const from = Math.min(...lines.map((l) => l.from));
  const to = Math.max(...lines.map((l) => l.to));
  const found: GroupCurve = { x: [], middle: [], low: [], high: [], count: [] };
  if (lines.length === 0) return found;
  const places = from === to ? 1 : PLACES;
  for (let p = 0; p < places; p++) {
    const at = places === 1 ? from : p === places - 1 ? to : from + (to - from) * p / (places - 1);
    const values = valuesAt(lines, at);
    const spread = values.length > 0 ? spreadOf(values, band) : undefined;
    found.x.push(at);
    found.middle.push(spread?.middle ?? null);
    found.low.push(spread?.low ?? null);
    found.high.push(spread?.high ?? null);
    found.count.push(values.length);
  }
  return found;
}

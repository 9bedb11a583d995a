/**
 * Series for charts, rolled up while ingesting. A point is x (1, 2, 3 …) and a value. Closed
 * buckets of 32 points, and of 8 times as many for each further level, are rows, so any range is
 * drawn from a few thousand rows whatever its length. The first factor is the largest because it
 * determines the cost: one row per 32 points; all further levels add a seventh. Open buckets are in
 * memory, and are the same after a restart, because sums are computed in the same order from the
 * same rows.
 */
import type { SeriesBucketRow } from "../../records/stored.ts";

/** Points of a bucket of each level; level 0 is the points themselves. */
export const LEVEL_SIZES = [1, 32, 256, 2048, 16_384, 131_072] as const;
const TOP_LEVEL = LEVEL_SIZES.length - 1;
/**
 * An answer is made from about this many rows at most; if it would need more, its buckets are
 * wider.
 */
const MOST_ROWS = 8192;

/** Consecutive points from x `first` to `last`; non-finite values are not counted. */
export interface Part {
  first: number;
  last: number;
  min: number;
  max: number;
  sum: number;
  count: number;
  /** The last finite value. */
  lastValue: number;
  atMs: number;
  /** The worker's step at the last point; null if the series has none. */
  step: number | null;
}

class Accumulator {
  min = Infinity;
  max = -Infinity;
  sum = 0;
  count = 0;
  lastValue = 0;

  clear(): void {
    this.min = Infinity;
    this.max = -Infinity;
    this.sum = 0;
    this.count = 0;
    this.lastValue = 0;
  }

  value(value: number): void {
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    this.sum += value;
    this.count++;
    this.lastValue = value;
  }

  part(part: Pick<Part, "min" | "max" | "sum" | "count" | "lastValue">): void {
    if (part.count === 0) return;
    if (part.min < this.min) this.min = part.min;
    if (part.max > this.max) this.max = part.max;
    this.sum += part.sum;
    this.count += part.count;
    this.lastValue = part.lastValue;
  }
}

/** Receives a closed bucket: `bucket` counts from 0, `bucket * size + 1` is its first x. */
export type BucketSink = (level: number, bucket: number, closed: Accumulator, atMs: number) => void;

/** The end of one series: its number of points, and the open buckets. */
export class SeriesHead {
  points: number;
  /** By level, created with the first point in it: most of ten thousand metrics are short. */
  readonly #open: Accumulator[] = [];

  /**
   * @param parts the open part of each level, in order: for the top level its closed buckets one
   * below, …, for level 1 its
   *   points
   */
  constructor(points: number, parts: { level: number; part: Part }[]) {
    this.points = points;
    for (const { level, part } of parts) this.#at(level - 1).part(part);
  }

  /** Adds a point. `atMs` is called only when a bucket closes. */
  add(value: number, atMs: (index: number) => number, index: number, sink: BucketSink): void {
    if (value - value === 0) this.#at(0).value(value);
    this.points++;
    if (this.points % LEVEL_SIZES[1] === 0) this.#close(atMs(index), sink);
  }

  #at(level: number): Accumulator {
    while (this.#open.length <= level) this.#open.push(new Accumulator());
    return this.#open[level]!;
  }

  #close(atMs: number, sink: BucketSink): void {
    for (let level = 1; level <= TOP_LEVEL; level++) {
      const size = LEVEL_SIZES[level]!;
      if (this.points % size !== 0) return;
      const open = this.#at(level - 1);
      sink(level, this.points / size - 1, open, atMs);
      if (level < TOP_LEVEL) this.#at(level).part(open);
      open.clear();
    }
  }
}

/** Reads the parts of a series: its rows in SQLite. */
export interface PartSource {
  /** Closed buckets `from` … `to` (exclusive) of a level ≥ 1, ascending. */
  buckets(level: number, from: number, to: number): Part[];
  /** The points from x `first` to `last`, both included, ascending. */
  points(first: number, last: number): Part[];
}

/** The parts that a new SeriesHead needs to continue after `points` points. */
export function openParts(source: PartSource, points: number): { level: number; part: Part }[] {
  const parts: { level: number; part: Part }[] = [];
  for (let level = TOP_LEVEL; level >= 1; level--) {
    const start = points - points % LEVEL_SIZES[level]!;
    if (start === points) continue;
    const below = LEVEL_SIZES[level - 1]!;
    const found = level === 1
      ? source.points(start + 1, points)
      : source.buckets(level - 1, start / below, Math.floor(points / below));
    for (const part of found) parts.push({ level, part });
  }
  return parts;
}

/** The range's parts, from the given level down to points at its uneven ends. */
function cover(source: PartSource, level: number, first: number, last: number): Part[] {
  if (first > last) return [];
  if (level === 0) return source.points(first, last);
  const size = LEVEL_SIZES[level]!;
  const from = Math.ceil((first - 1) / size);
  const to = Math.floor(last / size);
  if (from >= to) return cover(source, level - 1, first, last);
  return [
    ...cover(source, level - 1, first, from * size),
    ...source.buckets(level, from, to),
    ...cover(source, level - 1, to * size + 1, last),
  ];
}

/** A part as readers get it. */
export function rowOf(
  { first, last, min, max, sum, count, lastValue, atMs, step }: Part,
): Omit<SeriesBucketRow, "attempt" | "overwritten"> {
  const none = count === 0;
  const mean = sum / count;
  return {
    firstX: first,
    lastX: last,
    min: none ? NaN : min,
    max: none ? NaN : max,
    mean: none || Number.isFinite(mean) ? mean : min / 2 + max / 2,
    last: none ? NaN : lastValue,
    count,
    atMs,
    step,
    damaged: false,
  };
}

/**
 * Points that are sent one by one, whatever the budget; also the parts of a longer curve, if the
 * budget has no more.
 */
const WHOLE = 64;
/** From fewer buckets a curve would have another shape: then finer ones are read, and combined. */
const FEWEST_READ = 8;

/**
 * The range in about `most` parts, for one of many lines: combined from buckets of the finest level
 * that has no more, or of a finer one if these are too few to show the curve's shape. Buckets are
 * complete even if they begin before `first`. The first and the last point are parts of their own;
 * points between the last closed bucket and the last point are omitted.
 */
export function outline(
  source: PartSource,
  first: number,
  last: number,
  points: number,
  most: number,
): Part[] {
  if (first > last) return [];
  const shape = outlineOf(first, last, points, most);
  const { level, from, to } = shape;
  if (level === 0) return combined(source.points(first, last), most);
  return outlineFrom(source.buckets(level, from, to), shape, source, most);
}

export interface OutlineShape {
  /** With level 0, points. */
  level: number;
  /** Buckets `from` to `to` (exclusive) of the level. */
  from: number;
  to: number;
  /** The first point of the first bucket is a part of its own. */
  head: number | undefined;
  /** The last point, if no bucket contains it. */
  tail: number | undefined;
}

/** What an outline is made from. */
export function outlineOf(first: number, last: number, points: number, most: number): OutlineShape {
  const range = last - first + 1;
  let level = LEVEL_SIZES.findIndex((size, i) => i === TOP_LEVEL || range / size <= most);
  while (level > 0 && range / LEVEL_SIZES[level]! < FEWEST_READ) level--;
  const size = LEVEL_SIZES[level]!;
  const from = Math.floor((first - 1) / size);
  const to = Math.min(Math.floor(points / size), Math.ceil(last / size));
  return {
    ...{ level, from, to },
    head: from * size + 1 === first && from < to ? first : undefined,
    tail: to * size < last ? last : undefined,
  };
}

/** An outline from its buckets, and the points at its ends. */
export function outlineFrom(
  buckets: Part[],
  { head, tail }: OutlineShape,
  source: PartSource,
  most: number,
): Part[] {
  const [begin] = head === undefined ? [] : source.points(head, head);
  const end = tail === undefined ? [] : source.points(tail, tail);
  if (begin === undefined) return combined([...buckets, ...end], most);
  const [first, ...others] = buckets as [Part, ...Part[]];
  const rest = {
    ...first,
    first: first.first + 1,
    sum: first.sum - begin.sum,
    count: first.count - begin.count,
  };
  return combined([begin, rest, ...others, ...end], most);
}

/** At most `most` parts, or WHOLE; the first and the last stay as they are. */
function combined(parts: readonly Part[], most: number): Part[] {
  const limit = Math.max(WHOLE, most);
  if (parts.length <= limit) return [...parts];
  const inner = parts.slice(1, -1);
  const each = Math.ceil(inner.length / (limit - 2));
  const rows = [parts[0]!];
  for (let i = 0; i < inner.length; i += each) {
    const some = inner.slice(i, i + each);
    const sum = new Accumulator();
    for (const part of some) sum.part(part);
    rows.push({ ...some.at(-1)!, ...sum, first: some[0]!.first });
  }
  return [...rows, parts.at(-1)!];
}

/**
 * At most `limit` buckets over [first, last]: of equal width, a multiple of the coarsest level that
 * suffices. If that would need too many rows the next level is used, so there may be fewer than
 * requested, but some hundreds. Points that cannot be read any more are a bucket of their own,
 * without a value, beyond the limit.
 * @param kept the first x whose point is still stored; undefined if missing points cannot be
 * recognized
 */
export function decimate(
  source: PartSource,
  first: number,
  last: number,
  limit: number,
  kept?: number,
): Omit<SeriesBucketRow, "attempt" | "overwritten">[] {
  if (first > last || limit < 1) return [];
  const range = last - first + 1;
  const wanted = Math.ceil(range / limit);
  let level = 0;
  while (
    level < TOP_LEVEL &&
    (LEVEL_SIZES[level + 1]! <= wanted || range > MOST_ROWS * LEVEL_SIZES[level]!)
  ) level++;
  const size = LEVEL_SIZES[level]!;
  return bucketsOf(
    source,
    { level, width: Math.ceil(wanted / size) * size },
    first,
    last,
    limit,
    kept,
  );
}

/**
 * The buckets of one width from the one that begins at `first`, as `decimate` has made them for the
 * points before.
 */
export function decimateOn(
  source: PartSource,
  first: number,
  last: number,
  width: number,
  kept?: number,
): ReturnType<typeof decimate> {
  if (first > last) return [];
  const level = LEVEL_SIZES.findLastIndex((size) => width % size === 0);
  return bucketsOf(source, { level, width }, first, last, Infinity, kept);
}

function bucketsOf(
  source: PartSource,
  { level, width: given }: { level: number; width: number },
  first: number,
  last: number,
  limit: number,
  kept: number | undefined,
): Omit<SeriesBucketRow, "attempt" | "overwritten">[] {
  const size = LEVEL_SIZES[level]!;
  let width = given;
  const group = (x: number) => Math.floor((x - 1) / width);
  // Buckets start at multiples of the width, so the range may touch one more than it is wide.
  while (group(last) - group(first) + 1 > limit && group(last) > group(first)) width += size;
  const aligned = limit > 1;
  const rows: ReturnType<typeof bucketsOf> = [];
  const open = new Accumulator();
  let firstX = 0;
  let lastX = 0;
  let atMs = 0;
  let step: number | null = null;
  const flush = () => {
    if (lastX === 0) return;
    rows.push(rowOf({ ...open, first: firstX, last: lastX, atMs, step }));
    open.clear();
  };
  const missing = (from: number, to: number) => {
    if (kept === undefined || Math.max(from, kept) > to) return;
    flush();
    lastX = 0;
    current = -1;
    const none = { min: NaN, max: NaN, mean: NaN, last: NaN, count: 0 };
    rows.push({ ...none, damaged: true, firstX: Math.max(from, kept), lastX: to, atMs, step });
  };
  let current = -1;
  let next = first;
  for (const part of cover(source, level, first, last)) {
    missing(next, part.first - 1);
    next = part.last + 1;
    const its = aligned ? group(part.first) : 0;
    if (its !== current) {
      flush();
      current = its;
      firstX = part.first;
    }
    open.part(part);
    lastX = part.last;
    atMs = part.atMs;
    step = part.step;
  }
  flush();
  lastX = 0;
  missing(next, last);
  return rows;
}

/**
 * A trial's curve at a rung: the first point that lies there or beyond, and what came before it.
 */
import { MosaicError } from "../base/errors.ts";
import type { SeriesBucketRow } from "../records/stored.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { Goal } from "./stopping.ts";
import type { StopRule } from "./spec.ts";

/** Buckets read at once; a curve of a million points is searched in three readings. */
const BUCKETS = 128;

export interface AtRung {
  /** The worker's step there, or the number of the point. */
  step: number;
  /** NaN or infinite if the program reported that. */
  value: number;
  mean: number;
  best: number;
}

type Records = Pick<TelemetryReader, "series">;

/** A point, with what came before it. */
interface Found {
  before: SeriesBucketRow[];
  point: SeriesBucketRow;
}

/**
 * Undefined while the curve has not come so far, or if the run has none of this name. Overwritten
 * points do not count.
 * @param startedAt of the run, Unix milliseconds, for rungs of time; null: it has not started
 */
export function atRung(
  records: Records,
  runId: string,
  name: string,
  { unit }: Pick<StopRule, "unit">,
  rung: number,
  goal: Goal,
  startedAt: number | null = null,
): AtRung | undefined {
  const reached = reachedOf(records, runId, unit, rung, startedAt);
  const found = reached && firstPoint(records, runId, name, reached);
  if (found === undefined) return undefined;
  const { before, point } = found;
  const finite = [...before, point].filter(({ mean, count }) => count > 0 && Number.isFinite(mean));
  const points = finite.reduce((sum, { count }) => sum + count, 0);
  const mean = finite.reduce((sum, row) => sum + row.mean * row.count, 0) / points;
  const bests = finite.map(({ min, max }) => goal === "max" ? max : min);
  const best = bests.length === 0 ? NaN : goal === "max" ? Math.max(...bests) : Math.min(...bests);
  return {
    step: unit === "points" ? point.lastX : point.step ?? point.lastX,
    value: point.last,
    mean,
    best,
  };
}

/**
 * Whether a bucket of the compared metric has a point at the rung or beyond; undefined: no point
 * has yet.
 */
function reachedOf(
  records: Records,
  runId: string,
  unit: string,
  rung: number,
  startedAt: number | null,
): ((row: SeriesBucketRow) => boolean) | undefined {
  switch (unit) {
    case "points":
      return ({ lastX }) => lastX >= rung;
    case "step":
      return ({ step, lastX }) => (step ?? lastX) >= rung;
    case "time":
      return startedAt === null ? undefined : ({ atMs }) => atMs - startedAt >= rung * 1000;
  }
  // A metric that counts, such as epoch: from that moment on. Lines that were read together have
  // one time, but steps.
  const counted = firstPoint(records, runId, unit, ({ max }) => max >= rung)?.point;
  if (counted === undefined) return undefined;
  return ({ step, atMs }) =>
    atMs > counted.atMs || (atMs === counted.atMs && (step ?? 0) >= (counted.step ?? 0));
}

/** @param reached true from some point on, or for a bucket with such a point */
function firstPoint(
  records: Records,
  runId: string,
  name: string,
  reached: (row: SeriesBucketRow) => boolean,
): Found | undefined {
  const before: SeriesBucketRow[] = [];
  let [from, to] = [1, 0];
  for (;;) {
    const rows = curve(records, runId, name, from, to).filter((row) =>
      !row.overwritten && !row.damaged
    );
    const at = rows.findIndex(reached);
    if (at < 0) return undefined;
    before.push(...rows.slice(0, at));
    const point = rows[at]!;
    if (point.firstX >= point.lastX) return { before, point };
    [from, to] = [point.firstX, point.lastX];
  }
}

function curve(
  records: Records,
  runId: string,
  name: string,
  from: number,
  to: number,
): SeriesBucketRow[] {
  try {
    return records.series(runId, name, from, to, BUCKETS);
  } catch (error) {
    // The run has not reported it yet, or is deleted.
    if (error instanceof MosaicError && error.code === "not_found") return [];
    throw error;
  }
}

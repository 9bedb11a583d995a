/** A trial's curve at a rung: the first point that lies there or beyond, and what came before it. */
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

/** Undefined while the curve has not come so far, or if the run has none of this name. Overwritten points do not count. */
export function atRung(
  records: Records,
  runId: string,
  name: string,
  { unit }: Pick<StopRule, "unit">,
  rung: number,
  goal: Goal,
): AtRung | undefined {
  const placeOf = (row: SeriesBucketRow) => unit === "points" ? row.lastX : row.step ?? row.lastX;
  const read = (from: number, to: number) => {
    const rows = curve(records, runId, name, from, to).filter((row) => !row.overwritten && !row.damaged);
    return { rows, at: rows.findIndex((row) => placeOf(row) >= rung) };
  };
  const before: SeriesBucketRow[] = [];
  let [from, to] = [1, 0];
  for (;;) {
    const { rows, at } = read(from, to);
    if (at < 0) return undefined;
    before.push(...rows.slice(0, at));
    const found = rows[at]!;
    if (found.firstX >= found.lastX) {
      const finite = [...before, found].filter(({ mean, count }) => count > 0 && Number.isFinite(mean));
      const points = finite.reduce((sum, { count }) => sum + count, 0);
      const mean = finite.reduce((sum, row) => sum + row.mean * row.count, 0) / points;
      const bests = finite.map(({ min, max }) => goal === "max" ? max : min);
      const best = bests.length === 0 ? NaN : goal === "max" ? Math.max(...bests) : Math.min(...bests);
      return { step: placeOf(found), value: found.last, mean, best };
    }
    [from, to] = [found.firstX, found.lastX];
  }
}

function curve(records: Records, runId: string, name: string, from: number, to: number): SeriesBucketRow[] {
  try {
    return records.series(runId, name, from, to, BUCKETS);
  } catch (error) {
    // The run has not reported it yet, or is deleted.
    if (error instanceof MosaicError && error.code === "not_found") return [];
    throw error;
  }
}

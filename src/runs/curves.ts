/**
 * Points of a series for a chart: from a client's messages, or from the daemon's own telemetry.
 * Pure.
 */
import { MosaicError } from "../base/errors.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { EPISODE_REWARD } from "../records/progress_series.ts";

/** A range of a series' points; whole numbers are bigint in messages. */
export interface CurveBucket {
  firstX: bigint | number;
  lastX: bigint | number;
  mean: number;
  atMs: number;
  step?: number | null | undefined;
  attempt?: number | null | undefined;
  overwritten: boolean;
  damaged: boolean;
}

/** Unit of a series' x axis; "point" if the daemon's version sends no steps. */
export function xLabel(series: string, buckets: readonly Pick<CurveBucket, "step">[]): string {
  if ([EPISODE_REWARD, "episode_length"].includes(series)) return "episode";
  return series === "reward" || buckets.some((b) => b.step !== undefined && b.step !== null)
    ? "step"
    : "point";
}

/**
 * End of a bucket on the x axis: the worker's step for metrics, and a position that later attempts
 * repeat, as on the page.
 */
export function position(bucket: Pick<CurveBucket, "step" | "lastX">): number {
  return bucket.step ?? Number(bucket.lastX);
}

/** @throws {MosaicError} `not_found` with a suggestion, for an unknown name */
export function requireSeries(names: readonly string[], known: readonly string[]): void {
  for (const name of names) {
    if (known.includes(name)) continue;
    throw new MosaicError(
      "not_found",
      `the run has no series "${name}".${didYouMean(name, known)}`,
      {
        hint: `It has: ${known.join(", ") || "none yet"}.`,
      },
    );
  }
}

/** How many points of some curves have no value. */
export function damagedPoints(buckets: readonly CurveBucket[]): number {
  return buckets.reduce(
    (sum, { damaged, firstX, lastX }) => sum + (damaged ? Number(lastX) - Number(firstX) + 1 : 0),
    0,
  );
}

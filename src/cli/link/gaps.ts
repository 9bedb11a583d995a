/** Warnings about missing or damaged records, with their number. */
import type { SeriesBucket } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { Context } from "./context.ts";
import type { Kind } from "../text/records.ts";
import { escapeControl } from "../text/text.ts";

/**
 * Seqs are contiguous: records between `last` and `next` that are not sent cannot be read any more.
 * @returns its first and last seq
 */
export function warnOfGap(
  { err }: Context,
  kind: Kind,
  last: number,
  next: number,
): [number, number] | undefined {
  if (next <= last + 1) return undefined;
  err.write(gap(kind, last + 1, next - 1));
  return [last + 1, next - 1];
}

/** For curves: warns of each gap of a run's series once, recorded in `reported`. */
export function warnOfDamagedPoints(
  { err }: Context,
  run: { runId: string; series: string },
  buckets: readonly SeriesBucket[],
  reported: Set<string>,
): void {
  for (const { damaged, firstX, lastX } of buckets) {
    if (!damaged) continue;
    const message = gap(
      `${run.runId}: points of ${escapeControl(run.series)},`,
      Number(firstX),
      Number(lastX),
    );
    if (!reported.has(message)) err.write(message);
    reported.add(message);
  }
}

function gap(what: string, first: number, last: number): string {
  return `mosaic: ${what} ${first} to ${last} (${
    last - first + 1
  }) are missing or damaged: run mosaic doctor\n`;
}

/**
 * A series for a chart, as columns rather than rows, because a chart has hundreds of buckets and is
 * updated every second.
 */
import { MosaicError } from "../../base/errors.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import type { SeriesColumns } from "./page_json.ts";
import { finiteOrText } from "../../records/json_values.ts";

export function columns(
  records: TelemetryReader,
  runId: string,
  name: string,
  from: number,
  to: number,
  buckets: number,
): SeriesColumns {
  const rows = pointsOrNone(records, runId, name, from, to, buckets);
  return {
    name,
    first_x: rows.map((r) => r.firstX),
    last_x: rows.map((r) => r.lastX),
    min: rows.map((r) => finiteOrText(r.min)),
    max: rows.map((r) => finiteOrText(r.max)),
    mean: rows.map((r) => finiteOrText(r.mean)),
    last: rows.map((r) => finiteOrText(r.last)),
    count: rows.map((r) => r.count),
    at: rows.map((r) => r.atMs),
    step: rows.map((r) => r.step),
    attempt: rows.map((r) => r.attempt),
    overwritten: rows.map((r) => r.overwritten),
    damaged: rows.map((r) => r.damaged),
  };
}

/** Compared runs may lack a series: then it is empty. */
export function pointsOrNone(
  records: TelemetryReader,
  ...wanted: Parameters<TelemetryReader["series"]>
) {
  try {
    return records.series(...wanted);
  } catch (error) {
    if (error instanceof MosaicError && error.code === "not_found") return [];
    throw error;
  }
}

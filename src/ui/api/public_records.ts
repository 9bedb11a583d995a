/**
 * Records of telemetry in their public JSON (docs/reference/telemetry.md), passed on as text: the
 * worker's JSON is unchanged.
 */
import { jsonLines } from "../../records/public_json.ts";
import { withoutRenderPayload } from "../../records/render_payload.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { StoredOf } from "../../records/stored.ts";

export interface Records {
  /** A JSON array. */
  json: string;
  /** The last record's seq; undefined if there is none. */
  last: number | undefined;
}

function asArray<K extends TelemetryKind>(
  runId: string,
  kind: K,
  rows: readonly StoredOf[K][],
): string {
  return `[${jsonLines(runId, kind, rows).trimEnd().replaceAll("\n", ",")}]`;
}

/** Records with seq > since, ascending. @throws `out_of_range` below retention. */
export function recordsAfter(
  records: TelemetryReader,
  runId: string,
  kind: TelemetryKind,
  since: number,
  limit: number,
): Records {
  // Lists omit pictures; views of frames and single records have them.
  if (kind === "steps") {
    return page(kind, records.read(runId, kind, since, limit).map(withoutRenderPayload));
  }
  if (kind === "episodes") {
    return page(kind, records.read(runId, kind, since, limit).map(withoutRenderPayload));
  }
  return page(kind, records.read(runId, kind, since, limit));

  function page<K extends TelemetryKind>(kind: K, rows: readonly StoredOf[K][]): Records {
    return { json: asArray(runId, kind, rows), last: rows.at(-1)?.seq };
  }
}

/** One complete record; undefined if the run has none with that seq. */
export function recordAt(
  records: TelemetryReader,
  runId: string,
  kind: TelemetryKind,
  seq: number,
): string | undefined {
  const row = records.read(runId, kind, seq - 1, 1)[0];
  return row?.seq === seq ? jsonLines(runId, kind, [row]).trimEnd() : undefined;
}

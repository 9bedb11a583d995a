/**
 * The public JSON of stored records, one object per line (docs/reference/telemetry.md), as printed
 * by `mosaic steps -o jsonl` and sent by StreamTelemetry. Built as text, because the worker's own
 * JSON is passed on unchanged.
 */
import { episodeLine, metricLine, stepLine, workerEventLine } from "../gen/records/public_lines.ts";
import type { TelemetryKind } from "./record_fields.ts";
import type { StoredOf } from "./stored.ts";

/**
 * By kind: a row as a line without newline. The run's id is passed as JSON, encoded once for many
 * rows.
 */
const LINE: { [K in TelemetryKind]: (runIdJson: string, row: StoredOf[K]) => string } = {
  steps: stepLine,
  episodes: episodeLine,
  events: workerEventLine,
  metrics: metricLine,
};

/** Rows as lines, each ending with "\n". */
export function jsonLines<K extends TelemetryKind>(
  runId: string,
  kind: K,
  rows: readonly StoredOf[K][],
): string {
  const id = JSON.stringify(runId);
  const line = LINE[kind];
  let text = "";
  for (const row of rows) text += line(id, row) + "\n";
  return text;
}

/**
 * The public JSON of stored records, one object a line (docs/telemetry.md): what `mosaic steps -o jsonl` prints and
 * StreamTelemetry sends. Built as text, because the worker's own JSON is passed through as it is, not decoded and encoded.
 */
import { episodeLine, metricLine, stepLine, workerEventLine } from "../gen/records/public_lines.ts";
import type { StoredOf, TelemetryKind } from "./telemetry_log.ts";

/** By kind, a row as a line without its end. The run's id is given as JSON, encoded once for many rows. */
const LINE: { [K in TelemetryKind]: (runIdJson: string, row: StoredOf[K]) => string } = {
  steps: stepLine,
  episodes: episodeLine,
  events: workerEventLine,
  metrics: metricLine,
};

/** Rows as lines, each ending with "\n". */
export function jsonLines<K extends TelemetryKind>(runId: string, kind: K, rows: readonly StoredOf[K][]): string {
  const id = JSON.stringify(runId);
  const line = LINE[kind];
  let text = "";
  for (const row of rows) text += line(id, row) + "\n";
  return text;
}

/** One telemetry record as a line of JSON, in the shape documented in docs/cli.md. */
import type { StoredOf, TelemetryKind } from "../telemetry/types.ts";

export function telemetryLine<K extends TelemetryKind>(runId: string, kind: K, record: StoredOf[K]): string {
  return JSON.stringify({ run_id: runId, kind, ...record });
}

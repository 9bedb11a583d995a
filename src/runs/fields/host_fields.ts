/**
 * The fields of events, artifacts and the host, as `run_fields.ts` has those of runs. Their
 * messages are in mosaic.proto.
 */
import type { RunField } from "./run_fields.ts";

export const EVENT_FIELDS = [
  { json: "seq", kind: "integer", type: "uint64" },
  { json: "at", kind: "time", null: "json" },
  { json: "run_id", kind: "text" },
  { json: "run_name", kind: "text" },
  { json: "kind", kind: "text" },
  { json: "attempt", kind: "integer" },
  { json: "data", kind: "config", message: "data_json" },
] as const satisfies readonly RunField[];

export const ARTIFACT_FIELDS = [
  { json: "path", kind: "text" },
  { json: "kind", kind: "text" },
  { json: "bytes", kind: "integer", type: "uint64" },
  { json: "sha256", kind: "text" },
  { json: "step", kind: "integer", type: "uint64", null: "both", zero: true },
  { json: "window_id", kind: "text" },
  { json: "at", kind: "time", null: "json" },
  { json: "deleted_at", kind: "time", null: "both" },
] as const satisfies readonly RunField[];

/** A run that shares a card with others. */
const GPU_SHARE_FIELDS = [
  { json: "run_id", kind: "text" },
  { json: "part", kind: "number" },
  { json: "memory_mb", kind: "number", null: "both", zero: true },
  { json: "used_mb", kind: "number", null: "both", zero: true },
] as const satisfies readonly RunField[];

export const GPU_FIELDS = [
  { json: "slot", kind: "integer" },
  { json: "run_id", kind: "text", null: "both" },
  { json: "name", kind: "text" },
  { json: "uuid", kind: "text" },
  { json: "memory_mb", kind: "number", null: "both", zero: true },
  { json: "used_mb", kind: "number", null: "both", zero: true },
  { json: "percent", kind: "number", null: "both", zero: true },
  { json: "watts", kind: "number", null: "both", zero: true },
  { json: "celsius", kind: "number", null: "both", zero: true },
  { json: "shares", kind: "object", list: true, fields: GPU_SHARE_FIELDS },
  { json: "others", kind: "text" },
  { json: "lost", kind: "flag" },
  { json: "health", kind: "text" },
  { json: "link", kind: "text" },
] as const satisfies readonly RunField[];

export const HOST_FIELDS = [
  { json: "version", kind: "text" },
  { json: "pid", kind: "integer", type: "uint64" },
  { json: "started_at", kind: "time", null: "json" },
  { json: "state_dir", kind: "text" },
  { json: "listen", kind: "text" },
  { json: "http", kind: "text" },
  { json: "tls", kind: "flag" },
  { json: "gpus", kind: "object", list: true, fields: GPU_FIELDS },
  { json: "gpu_problem", kind: "text" },
  { json: "cpus", kind: "integer" },
  { json: "load_average", kind: "numbers" },
  { json: "memory_bytes", kind: "integer", type: "uint64" },
  { json: "memory_available_bytes", kind: "integer", type: "uint64" },
  { json: "disk_bytes", kind: "integer", type: "uint64" },
  { json: "disk_available_bytes", kind: "integer", type: "uint64" },
  { json: "telemetry_bytes", kind: "integer", type: "uint64" },
  { json: "rss_bytes", kind: "integer", type: "uint64" },
  { json: "runs_by_state", kind: "counts" },
] as const satisfies readonly RunField[];

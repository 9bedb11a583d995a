/** Telemetry records as the daemon sends them (JSON Lines, docs/cli.md), for tables and CSV. */
import { number } from "./format.ts";
import type { Column } from "./table.ts";

export const KINDS = ["steps", "episodes", "events", "metrics"] as const;
export type Kind = typeof KINDS[number];
export type TelemetryRecord = Record<string, unknown> & { seq: number };

/** CSV columns of each kind: all documented fields, in the documented order. */
export const FIELDS: Record<Kind, readonly string[]> = {
  steps: [
    "seq",
    "run_id",
    "attempt",
    "episode_index",
    "step_index",
    "action",
    "observation",
    "reward",
    "terminated",
    "truncated",
    "timestamp",
    "ts_ns",
    "agent_id",
    "worker_id",
    "policy_label",
    "backend",
    "render_hint",
    "render_payload",
    "frame_ref",
    "payload_version",
    "episode_seed",
    "info",
  ],
  episodes: [
    "seq",
    "run_id",
    "attempt",
    "episode_index",
    "total_reward",
    "steps",
    "terminated",
    "truncated",
    "timestamp",
    "ts_ns",
    "agent_id",
    "worker_id",
    "metadata",
  ],
  events: ["seq", "run_id", "attempt", "event", "timestamp", "ts_ns", "payload"],
  metrics: ["seq", "run_id", "name", "value", "step", "timestamp"],
};

interface Shown {
  field: string;
  heading?: string;
  numeric?: boolean;
  long?: boolean;
}

const SEQ: Shown = { field: "seq", numeric: true };
const EPISODE: Shown = { field: "episode_index", heading: "episode", numeric: true };
const AGENT: Shown = { field: "agent_id", heading: "agent", long: true };
const END: Shown = { field: "end" };
const TIME: Shown = { field: "timestamp", heading: "time" };

/** Columns of a table for people. */
const SHOWN: Record<Kind, readonly Shown[]> = {
  steps: [
    SEQ,
    EPISODE,
    { field: "step_index", heading: "step", numeric: true },
    AGENT,
    { field: "action", long: true },
    { field: "reward", numeric: true },
    END,
    { field: "observation", long: true },
  ],
  episodes: [
    SEQ,
    EPISODE,
    AGENT,
    { field: "steps", numeric: true },
    { field: "total_reward", heading: "reward", numeric: true },
    END,
    TIME,
  ],
  events: [SEQ, TIME, { field: "event" }, { field: "payload", long: true }],
  metrics: [
    SEQ,
    { field: "step", numeric: true },
    { field: "name" },
    { field: "value", numeric: true },
    TIME,
  ],
};

export function recordColumns(kind: Kind): Column<TelemetryRecord>[] {
  return SHOWN[kind].map(({ field, heading, numeric, long }) => ({
    name: heading ?? field,
    ...(numeric ? { align: "right" as const } : {}),
    ...(long ? { shrinkTo: 8 } : {}),
    text: (record) => field === "end" ? endOf(record) : shown(field, record),
  }));
}

function endOf(record: TelemetryRecord): string {
  return record["terminated"] === true ? "terminated" : record["truncated"] === true ? "truncated" : "";
}

function shown(field: string, record: TelemetryRecord): string {
  // NaN and infinities are null in JSON; the _text field has their name.
  const value = record[field] ?? record[`${field}_text`];
  if (value === undefined || value === null) return "";
  if (field === "timestamp" && typeof value === "string") return value.slice(0, 23).replace("T", " ");
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A record's cells in CSV; NaN and infinities by name. */
export function csvCells(kind: Kind, record: TelemetryRecord): unknown[] {
  return FIELDS[kind].map((field) => record[field] ?? record[`${field}_text`]);
}

/** The records of a batch of JSON Lines. */
export function parseLines(jsonl: Uint8Array): TelemetryRecord[] {
  return new TextDecoder().decode(jsonl).split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
}

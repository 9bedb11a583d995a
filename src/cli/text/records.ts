/**
 * Telemetry records as the daemon sends them (JSON Lines, docs/reference/json.md), for tables and
 * CSV.
 */
import { publicFields, type TelemetryKind } from "../../records/record_fields.ts";
import { number } from "../../base/text/format.ts";
import type { Column } from "./table.ts";

export type Kind = TelemetryKind;
export type TelemetryRecord = Record<string, unknown> & { seq: number };

/** CSV columns of a kind: every documented field, in the documented order. */
export function fieldNames(kind: Kind): string[] {
  return publicFields(kind).map(({ name }) => name);
}

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
  return record["terminated"] === true
    ? "terminated"
    : record["truncated"] === true
    ? "truncated"
    : "";
}

function shown(field: string, record: TelemetryRecord): string {
  // NaN and infinities are null in JSON; the _text field has their name.
  const value = record[field] ?? record[`${field}_text`];
  if (value === undefined || value === null) return "";
  if (field === "timestamp" && typeof value === "string") {
    return value.slice(0, 23).replace("T", " ");
  }
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A record's cells in CSV; NaN and infinities by name. */
export function csvCells(kind: Kind, record: TelemetryRecord): unknown[] {
  return fieldNames(kind).map((field) => record[field] ?? record[`${field}_text`]);
}

/** The records of a batch of JSON Lines. */
export function parseLines(jsonl: Uint8Array): TelemetryRecord[] {
  return new TextDecoder().decode(jsonl).split("\n").filter((line) => line !== "").map((line) =>
    JSON.parse(line)
  );
}

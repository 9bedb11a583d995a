/** Telemetry records as the daemon sends them (JSON Lines, docs/cli.md), for tables and CSV. */
import { number } from "./format.ts";
import type { Column } from "./table.ts";

export const KINDS = ["steps", "episodes", "events", "metrics"] as const;
export type Kind = typeof KINDS[number];
export type TelemetryRecord = Record<string, unknown> & { seq: number };

/** CSV columns of each kind: every documented field, in the documented order. */
export const FIELDS: Record<Kind, readonly string[]> = {
  steps: [
    "seq",
    "attempt",
    "episode",
    "step",
    "reward",
    "terminated",
    "truncated",
    "ts",
    "agent_id",
    "worker_id",
    "action",
    "observation",
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
    "attempt",
    "episode",
    "total_reward",
    "steps",
    "terminated",
    "truncated",
    "ts",
    "agent_id",
    "worker_id",
    "metadata",
  ],
  events: ["seq", "attempt", "kind", "ts", "data"],
  metrics: ["seq", "name", "step", "value", "ts"],
};

/** Fields worth a column in a table that a person reads. */
const SHOWN: Record<Kind, readonly string[]> = {
  steps: ["seq", "episode", "step", "agent_id", "action", "reward", "end", "observation"],
  episodes: ["seq", "episode", "agent_id", "steps", "total_reward", "end", "ts"],
  events: ["seq", "ts", "kind", "data"],
  metrics: ["seq", "step", "name", "value", "ts"],
};

const NUMERIC = new Set(["seq", "attempt", "episode", "step", "steps", "reward", "total_reward", "value"]);
const LONG = new Set(["observation", "data", "action", "agent_id"]);

export function recordColumns(kind: Kind): Column<TelemetryRecord>[] {
  return SHOWN[kind].map((name) => ({
    name: name === "total_reward" ? "reward" : name === "agent_id" ? "agent" : name,
    ...(NUMERIC.has(name) ? { align: "right" as const } : {}),
    ...(LONG.has(name) ? { shrinkTo: 8 } : {}),
    text: (record) => name === "end" ? endOf(record) : shown(name, record[name]),
  }));
}

function endOf(record: TelemetryRecord): string {
  return record["terminated"] === true ? "terminated" : record["truncated"] === true ? "truncated" : "";
}

function shown(name: string, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (name === "ts" && typeof value === "string") return value.slice(0, 23).replace("T", " ");
  if (typeof value === "number") return NUMERIC.has(name) && Number.isInteger(value) ? String(value) : number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The records of a batch of JSON Lines. */
export function parseLines(jsonl: Uint8Array): TelemetryRecord[] {
  return new TextDecoder().decode(jsonl).split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
}

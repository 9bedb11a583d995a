/**
 * The fields of telemetry records. From this table `deno task gen` writes straight-line code
 * (src/gen/records): types, columns of a batch, checks, public JSON, rows, gRPC frames, readers of
 * workers' lines. A field added here is stored, sent, printed and exported;
 * docs/reference/telemetry.md lists what else it needs.
 */

export type TelemetryKind = "steps" | "episodes" | "events" | "metrics";

export type FieldKind =
  /** An integer from 0 to 2^53 - 1; default 0. */
  | "index"
  | "flag"
  /** Any number, including NaN and infinities; default 0. */
  | "real"
  /** A text that `sources` stores once for many rows. */
  | "label"
  | "text"
  /** JSON as the worker wrote it; "": none. */
  | "json"
  /** Unix nanoseconds as decimal text. */
  | "time"
  /** Unix milliseconds. */
  | "milliseconds"
  /** The name of a series; the row has its number. */
  | "series";

export interface RecordField {
  /** Property of the records in the program. */
  key: string;
  kind: FieldKind;
  /**
   * Name in public JSON; also the name that workers write, and the column in mosaic.sqlite, unless
   * those are given.
   */
  json: string;
  column?: string;
  /** Names under which workers write it; the first existing one counts. */
  names?: readonly string[];
  /** Number in the original's RunStep or RunEpisode; a field without one is not sent there. */
  proto?: number;
  /** Written in public JSON even if it has the default value. */
  always?: boolean;
  /** The value if a line lacks it: NaN, which public JSON writes as null, instead of 0. */
  absent?: "nan";
  /** A line without a number for it is malformed. */
  strict?: boolean;
  /**
   * How it is read from a worker's line, if its type does not determine that: src/readers/lines.
   * `rest`: all other fields.
   */
  read?: "episode" | "agent" | "worker" | "payload" | "name" | "rest";
  /** Version of mosaic.sqlite that added its column, for fields that are newer than the table. */
  since?: number;
}

export interface RecordTable {
  /** Name of a single record, in type names. */
  name: string;
  table: string;
  /** The original's message, and the field number of `seq` in it. */
  message?: { name: string; seq: number };
  /** Whether rows have an attempt. */
  attempt: boolean;
  fields: readonly RecordField[];
}

const EPISODE = ["episode_index", "episode"];
const STEP = ["step_index", "step", "time_step"];
/** Last in both: Gymnasium's names, which a worker passes on from its wrapper. */
const TOTAL_REWARD = ["total_reward", "reward", "episode_return", "episode_reward", "r"];
const STEPS = ["steps", "num_steps", "episode_length", "episode_steps", "l"];

/**
 * Names in workers' lines for a record's kind, source, episode and time, and for further fields.
 */
export const DIALECT_NAMES = [
  ...["type", "event_type", "event", "run_id", "episode_id", "episode_number"],
  ...["ts_unix_ns", "ts", "timestamp", "metadata", "metadata_json", "payload"],
];

/** In the order of public JSON. */
export const RECORDS: Record<TelemetryKind, RecordTable> = {
  steps: {
    name: "Step",
    table: "steps",
    message: { name: "RunStep", seq: 12 },
    attempt: true,
    fields: [
      {
        key: "episode",
        kind: "index",
        json: "episode_index",
        column: "episode",
        proto: 2,
        always: true,
        names: EPISODE,
        read: "episode",
      },
      {
        key: "step",
        kind: "index",
        json: "step_index",
        column: "step",
        proto: 3,
        always: true,
        strict: true,
        names: STEP,
      },
      { key: "actionJson", kind: "json", json: "action", proto: 4, always: true },
      { key: "observationJson", kind: "json", json: "observation", proto: 5, always: true },
      { key: "reward", kind: "real", json: "reward", proto: 6, always: true, strict: true },
      { key: "terminated", kind: "flag", json: "terminated", proto: 7, always: true },
      { key: "truncated", kind: "flag", json: "truncated", proto: 8, always: true },
      { key: "tsNs", kind: "time", json: "timestamp", column: "ts_ns", proto: 9, always: true },
      { key: "agentId", kind: "label", json: "agent_id", proto: 13, read: "agent" },
      { key: "workerId", kind: "label", json: "worker_id", proto: 19, read: "worker" },
      { key: "policyLabel", kind: "label", json: "policy_label", proto: 10 },
      { key: "backend", kind: "label", json: "backend", proto: 11 },
      {
        key: "renderHintJson",
        kind: "json",
        json: "render_hint",
        proto: 14,
        names: ["render_hint", "render"],
      },
      {
        key: "renderPayloadJson",
        kind: "json",
        json: "render_payload",
        proto: 17,
        read: "payload",
      },
      { key: "frameRef", kind: "text", json: "frame_ref", proto: 15 },
      { key: "payloadVersion", kind: "index", json: "payload_version", proto: 16 },
      {
        key: "episodeSeed",
        kind: "index",
        json: "episode_seed",
        proto: 18,
        names: ["episode_seed", "seed"],
      },
      { key: "infoJson", kind: "json", json: "info", read: "rest" },
    ],
  },
  episodes: {
    name: "Episode",
    table: "episodes",
    message: { name: "RunEpisode", seq: 9 },
    attempt: true,
    fields: [
      {
        key: "episode",
        kind: "index",
        json: "episode_index",
        column: "episode",
        proto: 2,
        always: true,
        names: EPISODE,
        read: "episode",
      },
      {
        key: "totalReward",
        kind: "real",
        json: "total_reward",
        proto: 3,
        always: true,
        strict: true,
        names: TOTAL_REWARD,
        // Unlike for a step, a missing reward of an episode must be distinct from 0.
        absent: "nan",
      },
      {
        key: "steps",
        kind: "index",
        json: "steps",
        proto: 4,
        always: true,
        strict: true,
        names: STEPS,
      },
      { key: "terminated", kind: "flag", json: "terminated", proto: 5, always: true },
      { key: "truncated", kind: "flag", json: "truncated", proto: 6, always: true },
      { key: "tsNs", kind: "time", json: "timestamp", column: "ts_ns", proto: 8, always: true },
      { key: "agentId", kind: "label", json: "agent_id", proto: 10, read: "agent" },
      { key: "workerId", kind: "label", json: "worker_id", proto: 11, read: "worker" },
      { key: "metadataJson", kind: "json", json: "metadata", proto: 7, read: "rest" },
    ],
  },
  events: {
    name: "WorkerEvent",
    table: "worker_events",
    attempt: true,
    fields: [
      { key: "kind", kind: "text", json: "event", column: "kind", always: true, read: "name" },
      { key: "tsNs", kind: "time", json: "timestamp", column: "ts_ns", always: true },
      { key: "dataJson", kind: "json", json: "payload", column: "data", read: "rest" },
    ],
  },
  metrics: {
    name: "Metric",
    table: "metrics",
    attempt: false,
    fields: [
      { key: "name", kind: "series", json: "name", column: "series", always: true },
      { key: "value", kind: "real", json: "value", always: true },
      { key: "step", kind: "index", json: "step", always: true },
      { key: "tsMs", kind: "milliseconds", json: "timestamp", column: "ts_ms", always: true },
    ],
  },
};

export const TELEMETRY_KINDS = Object.keys(RECORDS) as TelemetryKind[];

export function columnOf({ column, json }: RecordField): string {
  return column ?? json;
}

/** Columns of unbounded length. */
export function textColumns(kind: TelemetryKind): string[] {
  return RECORDS[kind].fields.filter((field) => field.kind === "json" || field.kind === "text").map(
    columnOf,
  );
}

export type PublicType = "integer" | "number" | "flag" | "text" | "json" | "time" | "nanoseconds";

export interface PublicField {
  name: string;
  type: PublicType;
  /** Omitted from a record that has the default value. */
  optional: boolean;
}

/** The fields of a kind's public JSON, in their order. */
export function publicFields(kind: TelemetryKind): PublicField[] {
  const { attempt, fields } = RECORDS[kind];
  const placed = (name: string, type: PublicType): PublicField => ({ name, type, optional: false });
  return [
    placed("seq", "integer"),
    placed("run_id", "text"),
    ...(attempt ? [placed("attempt", "integer")] : []),
    ...fields.flatMap((field) => {
      const { json, always } = field;
      if (field.kind === "time") return [placed(json, "time"), placed("ts_ns", "nanoseconds")];
      return [{ name: json, type: publicType(field), optional: always !== true }];
    }),
  ];
}

function publicType({ kind }: RecordField): PublicType {
  switch (kind) {
    case "index":
      return "integer";
    case "real":
      return "number";
    case "flag":
    case "json":
      return kind;
    case "time":
    case "milliseconds":
      return "time";
    case "label":
    case "text":
    case "series":
      return "text";
  }
}

/**
 * The fields of a run: one row each. From this table come the columns of `runs` in the registry and
 * the type of a row (run_types.ts, src/registry/rows.ts), the one JSON of command line, page and
 * exports (run_json.ts, src/registry/contract.ts), the messages of `proto/mosaic/v1/mosaic.proto`
 * and what fills and reads them (run_message.ts), and the tables of fields in
 * docs/reference/json.md. `deno task gen` writes the messages and the tables anew.
 * docs/reference/development.md says what a new field needs.
 */

export type RunFieldKind =
  | (
    | "text"
    | "state"
    | "outcome"
    | "phase"
    | "base"
    | "integer"
    | "number"
    | "flag"
    | "texts"
    | "integers"
    | "numbers"
  )
  /** Unix milliseconds; RFC 3339 in JSON. */
  | "time"
  /** Integers by name. */
  | "counts"
  /** A pid with its identity in the row, the pid alone elsewhere. */
  | "process"
  /** JSON as text in the row and in messages, as a value in JSON. */
  | "config"
  /** Any JSON value. */
  | "any"
  /** Of `fields`. */
  | "object";

export interface RunField {
  /**
   * Name in JSON, and in messages unless `message` gives another. A field without one is only
   * stored.
   */
  json?: string;
  kind: RunFieldKind;
  /**
   * Its column of `runs`, and for a column that is newer than the table the version of registry.db
   * that adds it: its migration is written from this (src/registry/migrations.ts).
   */
  column?: string;
  since?: number;
  /** Read of very many runs at once, to filter and sort them. */
  outline?: true;
  /**
   * Where its value is in RunDetail, if neither in its column nor in a property of its own name.
   */
  from?: string;
  /**
   * Where it may be null. `row`: in its column or property, and JSON has "", 0 or false for it.
   * `json`: there, for "" and 0.
   */
  null?: "row" | "json" | "both";
  /** 0 is a value, distinct from null. */
  zero?: true;
  /**
   * Its number in the message, and its name and type there if they are not those of the JSON and
   * the kind.
   */
  proto?: number;
  message?: string;
  type?:
    | "int32"
    | "uint64"
    | "Transition"
    | "Parameter"
    | "Placement"
    | "Rank"
    | "TelemetryCounts"
    | "Capabilities"
    | "ReportedReward"
    | "Objective";
  /** Of an object. It is null where the value of its first field is. */
  fields?: readonly RunField[];
  /** A list of objects. */
  list?: true;
  /** Only of a single run: `show`, `export`, the page of a run. */
  single?: true;
  /** One line of Markdown for the docs and the messages. */
  about?: string;
}

const PLACEMENT = [
  { json: "launcher", kind: "text", proto: 1, about: "the engine" },
  { json: "name", kind: "text", proto: 2, about: "the job's name there" },
  {
    json: "job",
    kind: "text",
    null: "both",
    proto: 3,
    about: "its id there; null while it is unknown",
  },
  {
    json: "phase",
    kind: "phase",
    proto: 4,
    about: "`intended`: the job is being submitted to the engine",
  },
  {
    json: "waiting_for",
    kind: "text",
    null: "json",
    proto: 5,
    about: "why the engine does not start it yet, or what is uncertain about its end",
  },
  { json: "expected_start", kind: "time", null: "both", proto: 6, about: "by the engine" },
  { json: "nodes", kind: "texts", proto: 7, about: "where it runs" },
  { json: "gpus", kind: "texts", proto: 8, about: "as the worker sees them" },
  {
    json: "end",
    kind: "text",
    null: "both",
    proto: 9,
    about: "how the job ended, by the engine: finished, time_limit, preempted, …",
  },
] as const satisfies readonly RunField[];

const TELEMETRY = [
  {
    json: "steps",
    kind: "integer",
    type: "uint64",
    proto: 1,
    about: "number of records ([telemetry](telemetry.md))",
  },
  { json: "episodes", kind: "integer", type: "uint64", proto: 2 },
  { json: "events", kind: "integer", type: "uint64", proto: 3 },
  {
    json: "other_lines",
    kind: "integer",
    type: "uint64",
    proto: 4,
    about: "lines of the worker that are not telemetry, kept only in its log",
  },
  {
    json: "malformed_lines",
    kind: "integer",
    type: "uint64",
    proto: 5,
    about: "lines that look like telemetry and cannot be read as such",
  },
  {
    json: "violations",
    kind: "counts",
    proto: 6,
    about:
      "number of violations of each rule of the run's schema; `not read: …`: what the program produced and mosaic did not take",
  },
  {
    json: "journal_position",
    kind: "integer",
    type: "uint64",
    proto: 7,
    about: "bytes of its output that are stored",
  },
  {
    json: "journal_size",
    kind: "integer",
    type: "uint64",
    proto: 8,
    about: "bytes that the worker has written",
  },
  {
    json: "mean_reward_100",
    kind: "number",
    null: "both",
    zero: true,
    proto: 9,
    about: "of the last 100 episodes; null before the first",
  },
  {
    json: "steps_per_second",
    kind: "number",
    proto: 10,
    about:
      "over the last 5 s; the measurement restarts after a pause, a rate change or a new connection, and excludes records that are read late",
  },
  { json: "last_record_at", kind: "time", null: "both", proto: 11 },
  {
    json: "last_output_at",
    kind: "time",
    null: "both",
    proto: 12,
    about:
      "when the live worker last wrote to its standard output or standard error, telemetry or not",
  },
  { json: "metrics", kind: "integer", type: "uint64", proto: 13, about: "points of metrics" },
  {
    json: "told_step",
    kind: "integer",
    type: "uint64",
    proto: 14,
    about:
      "the highest step of a metric; 0: none. `list`, `show` and the page show it if it is above `steps`",
  },
  {
    json: "reported_reward",
    kind: "object",
    null: "both",
    proto: 15,
    type: "ReportedReward",
    fields: [
      { json: "name", kind: "text", proto: 1, about: "of the metric" },
      { json: "value", kind: "number", proto: 2 },
    ],
    about:
      "the metric that most probably is the reward of episodes, such as `rollout/ep_rew_mean`, and its last value. `list`, `show`, `compare` and the page show it if `mean_reward_100` is null",
  },
  {
    json: "overwritten_steps",
    kind: "integer",
    type: "uint64",
    proto: 16,
    about:
      "how many of `steps` are [overwritten](cli.md#overwritten-records). `list`, `show` and the page show the number if it is not 0",
  },
  {
    json: "overwritten_episodes",
    kind: "integer",
    type: "uint64",
    proto: 17,
    about: "the same of `episodes`",
  },
  {
    json: "objective",
    kind: "object",
    null: "both",
    proto: 18,
    type: "Objective",
    fields: [
      { json: "name", kind: "text", proto: 1, about: "such as `eval/reward:max`" },
      {
        json: "value",
        kind: "number",
        null: "both",
        zero: true,
        proto: 2,
        about: "the maximum, minimum, last value or mean of the series; null: no such point yet",
      },
    ],
    about:
      "the metric by which the run is judged, if its `metadata.objective` or the daemon's `--objective` names one. `list`, `show`, `compare`, `top` and the page show it as the reward, also while it has no value: a list never compares it with another metric",
  },
] as const satisfies readonly RunField[];

const CAPABILITIES = [
  { json: "worker_kind", kind: "text", column: "worker_kind", null: "row", proto: 1 },
  { json: "proto_version", kind: "text", column: "proto_version", null: "row", proto: 2 },
  { json: "schema_id", kind: "text", column: "schema_id", null: "row", proto: 3 },
  { json: "schema_version", kind: "integer", column: "schema_version", null: "row", proto: 4 },
  { json: "supports_pause", kind: "flag", column: "supports_pause", proto: 5 },
  { json: "supports_checkpoint", kind: "flag", column: "supports_checkpoint", proto: 6 },
] as const satisfies readonly RunField[];

const TRANSITION = [
  { json: "seq", kind: "integer", type: "uint64", proto: 1, about: "ascending over all runs" },
  {
    json: "from",
    kind: "state",
    null: "both",
    proto: 2,
    message: "from_state",
    about: "null for the first",
  },
  { json: "to", kind: "state", proto: 3, message: "to_state" },
  { json: "event", kind: "text", proto: 4, about: "the event that caused it" },
  { json: "reason", kind: "text", null: "both", proto: 5 },
  { json: "attempt", kind: "integer", proto: 6 },
  { json: "at", kind: "time", proto: 7 },
] as const satisfies readonly RunField[];

const PARAMETER = [
  { json: "name", kind: "text", proto: 1, about: "names of nested values are joined with dots" },
  { json: "value", kind: "any", proto: 2, message: "value_json" },
  {
    json: "source",
    kind: "text",
    proto: 3,
    about:
      "`config`, `command`, or the source that its event names: `hparams`, `wandb`, `mlflow`, `init` …",
  },
  {
    json: "earlier",
    kind: "any",
    proto: 4,
    message: "earlier_json",
    about: "other values that it had in earlier attempts: `attempt`, `value`; oldest first",
  },
] as const satisfies readonly RunField[];

const RANK = [
  { json: "rank", kind: "integer", proto: 1 },
  { json: "node", kind: "text", null: "json", proto: 2, about: "null while it has not begun" },
  {
    json: "code",
    kind: "integer",
    type: "int32",
    null: "both",
    zero: true,
    proto: 3,
    about:
      "exit code, 128 + n for signal n; null while it runs, and where another rank's failure ended it",
  },
  { json: "first", kind: "flag", proto: 4, about: "it failed first, which ended the others" },
] as const satisfies readonly RunField[];

/** In the order of JSON. */
export const RUN_FIELDS = [
  { json: "run_id", kind: "text", column: "run_id", outline: true, proto: 1 },
  { json: "name", kind: "text", column: "name", outline: true, proto: 2 },
  {
    json: "state",
    kind: "state",
    column: "state",
    outline: true,
    proto: 3,
    about: "[the transitions](../explanation/architecture.md#lifecycle)",
  },
  {
    json: "outcome",
    kind: "outcome",
    column: "outcome",
    outline: true,
    null: "both",
    proto: 4,
    about: "null while it is live",
  },
  {
    json: "reason",
    kind: "text",
    column: "reason",
    outline: true,
    null: "both",
    proto: 5,
    about:
      "why it failed, was cancelled, waits or is held ([vocabulary](operations.md#why-a-run-failed))",
  },
  {
    json: "hint",
    kind: "text",
    column: "hint",
    null: "both",
    proto: 6,
    about: "what a person can do about a failure whose cause is known",
  },
  {
    json: "attempt",
    kind: "integer",
    column: "attempt",
    outline: true,
    proto: 7,
    about: "1 is the first",
  },
  {
    json: "max_attempts",
    kind: "integer",
    column: "max_attempts",
    proto: 8,
    about: "how many it may have, by `metadata.restart.max_attempts` and retries by hand",
  },
  { json: "priority", kind: "integer", type: "int32", column: "priority", outline: true, proto: 9 },
  { json: "queue_position", kind: "integer", null: "json", proto: 10, about: "1 is next" },
  {
    json: "waiting_for",
    kind: "text",
    null: "json",
    proto: 11,
    about:
      "what an `INIT` run waits for, or a live one whose worker is held because the store's disk is full",
  },
  { json: "gpus_requested", kind: "integer", column: "gpus_requested", proto: 12 },
  {
    json: "gpu_share",
    kind: "number",
    column: "gpu_share",
    since: 22,
    null: "both",
    proto: 90,
    about:
      "the part of each card that it declares, between 0 and 1; null: whole cards, or `gpu_memory_mb`",
  },
  {
    json: "gpu_memory_mb",
    kind: "integer",
    column: "gpu_memory_mb",
    since: 22,
    null: "both",
    proto: 91,
    about: "MiB of each card that it declares; null: whole cards, or `gpu_share`",
  },
  {
    json: "gpu_peak_mb",
    kind: "number",
    column: "gpu_peak_mb",
    since: 22,
    null: "both",
    proto: 92,
    about:
      "the most MiB of GPU memory that it was seen to use, of all its cards; null: not measured",
  },
  {
    json: "gpu_slots",
    kind: "integers",
    from: "row.gpuSlots",
    proto: 13,
    about: "the slots it holds",
  },
  { json: "tags", kind: "texts", column: "tags", outline: true, proto: 14 },
  {
    json: "owner",
    kind: "text",
    column: "owner",
    since: 17,
    outline: true,
    proto: 80,
    about:
      'whose it is: the name of the token that submitted it, or `uid:N`; "" if neither is known',
  },
  {
    json: "notes",
    kind: "text",
    column: "notes",
    proto: 50,
    about: 'of people, in Markdown; "": none',
  },
  {
    json: "observed",
    kind: "texts",
    column: "observed",
    since: 17,
    proto: 72,
    about: "patterns of files that `mosaic observe` has added",
  },
  {
    json: "code_changed",
    kind: "text",
    column: "code_changed",
    since: 11,
    null: "json",
    proto: 52,
    about:
      "what of its code has changed between submission and start, such as `train.py`; null: nothing that is known",
  },
  {
    json: "digest",
    kind: "text",
    column: "digest",
    proto: 15,
    about: "SHA-256 of its canonical config, hexadecimal",
  },
  { json: "submitted_at", kind: "time", column: "created_at", outline: true, proto: 16 },
  { json: "updated_at", kind: "time", column: "updated_at", proto: 60, about: "of its row" },
  {
    json: "started_at",
    kind: "time",
    column: "started_at",
    outline: true,
    null: "both",
    proto: 17,
    about: "of the current or last attempt",
  },
  {
    json: "finished_at",
    kind: "time",
    column: "finished_at",
    outline: true,
    null: "both",
    proto: 18,
  },
  {
    json: "deleted_at",
    kind: "time",
    column: "deleted_at",
    since: 19,
    null: "both",
    proto: 81,
    about: "when it was put into the trash; null: it is not there",
  },
  { json: "last_heartbeat", kind: "time", column: "last_heartbeat_at", null: "both", proto: 19 },
  {
    json: "not_before",
    kind: "time",
    column: "not_before",
    null: "both",
    proto: 61,
    about: "when an `INIT` run may start at the earliest: the back-off between attempts",
  },
  {
    json: "exit_code",
    kind: "integer",
    type: "int32",
    column: "exit_code",
    null: "both",
    zero: true,
    proto: 20,
    about: "the worker's",
  },
  {
    json: "exit_signal",
    kind: "text",
    column: "exit_signal",
    null: "both",
    proto: 21,
    about: "the signal that ended the worker, such as `SIGKILL`",
  },
  // Set durably before the first signal is sent, so that a restarted daemon finishes the
  // cancellation.
  {
    json: "cancel_requested",
    kind: "flag",
    from: "row.cancelRequestedAt",
    proto: 22,
    about: "cancelled, and some of its processes are still alive",
  },
  { kind: "time", column: "cancel_requested_at", null: "both" },
  { json: "cancel_reason", kind: "text", column: "cancel_reason", null: "both", proto: 62 },
  // A failure decided by the daemon (heartbeat, limit, stall …) while the group is still being
  // killed.
  { kind: "text", column: "fault_requested", null: "both" },
  {
    json: "pause_requested",
    kind: "flag",
    column: "pause_requested",
    proto: 63,
    about: "it is paused, or will be as soon as its worker obeys",
  },
  {
    json: "base_dir",
    kind: "base",
    column: "base_dir",
    proto: 64,
    about: "the part of the state directory that has its files: `evals` for an evaluation",
  },
  { json: "directory", kind: "text", proto: 23, about: "its files" },
  {
    json: "resume_from",
    kind: "text",
    column: "resume_from",
    null: "both",
    proto: 51,
    about: "the checkpoint that the attempt goes on from; null where it begins anew",
  },
  {
    json: "max_steps",
    kind: "integer",
    type: "uint64",
    null: "json",
    proto: 32,
    about:
      "the length known from the config (`schedule.max_steps`, `worker.config.total_timesteps`), of a live run also from a parameter such as `total_timesteps`",
  },
  {
    json: "progress",
    kind: "number",
    null: "both",
    zero: true,
    proto: 73,
    about:
      "how far a live run is by its own bars (tqdm, Keras, `Epoch 3/10`), 0 to 1; null: unknown",
  },
  {
    json: "max_rate_hz",
    kind: "integer",
    column: "max_rate_hz",
    null: "json",
    proto: 33,
    about: "the limit in steps a second",
  },
  { json: "worker_id", kind: "text", column: "worker_id", null: "json", proto: 26 },
  { json: "agent_id", kind: "text", column: "agent_id", null: "json", proto: 65 },
  { json: "worker_pid", kind: "process", column: "worker", null: "both", proto: 27 },
  { json: "proxy_pid", kind: "process", column: "proxy", null: "both", proto: 28 },
  {
    json: "damaged",
    kind: "texts",
    from: "row.damaged",
    proto: 35,
    about: "columns of its row that cannot be read; `mosaic doctor --repair` repairs them",
  },
  {
    json: "placement",
    kind: "object",
    type: "Placement",
    null: "both",
    from: "row.placement",
    proto: 38,
    fields: PLACEMENT,
    about:
      "the job of an engine such as Slurm ([slurm](../how-to/slurm.md)); null on the daemon's own host",
  },
  { json: "telemetry", kind: "object", type: "TelemetryCounts", proto: 24, fields: TELEMETRY },
  {
    json: "capabilities",
    kind: "object",
    type: "Capabilities",
    null: "both",
    from: "row",
    proto: 25,
    fields: CAPABILITIES,
    about: "what a worker that calls gRPC itself registered; null for others",
  },
  {
    json: "parent",
    kind: "text",
    column: "parent",
    since: 14,
    null: "both",
    proto: 70,
    about:
      "the run whose program made this one: a trial, a job, a tracker's run ([runs within a run](formats.md#runs-within-a-run)); null for a run with a program of its own",
  },
  // What identifies it within its parent: a directory.
  { kind: "text", column: "child_key", since: 14, null: "both" },
  {
    json: "children",
    kind: "integer",
    proto: 71,
    about: "runs within this run; `list --within RUN` lists them",
  },
  { kind: "flag", column: "gpus_mandatory" },
  { kind: "text", column: "session_token", null: "both" },
  {
    json: "transitions",
    kind: "object",
    list: true,
    type: "Transition",
    single: true,
    proto: 29,
    fields: TRANSITION,
    about: "in order",
  },
  {
    json: "parameters",
    kind: "object",
    list: true,
    type: "Parameter",
    single: true,
    proto: 37,
    fields: PARAMETER,
    about:
      "its [parameters](telemetry.md#parameters), one a name, sorted by name; secrets are hidden",
  },
  {
    json: "config",
    kind: "config",
    column: "config_json",
    single: true,
    proto: 30,
    message: "config_json",
    about: "as stored, with run id and paths",
  },
  {
    json: "enforced_limits",
    kind: "texts",
    single: true,
    proto: 34,
    about: "the `resources` that the daemon enforces: `memory_mb`, `cpus`; the others are advice",
  },
  {
    json: "ranks",
    kind: "object",
    list: true,
    type: "Rank",
    single: true,
    proto: 39,
    fields: RANK,
    about: "of a run on [several nodes](../how-to/slurm.md#several-nodes); empty for others",
  },
  {
    json: "stderr_tail",
    kind: "texts",
    column: "stderr_tail",
    single: true,
    proto: 31,
    about: "the last lines of its error output",
  },
  {
    json: "host_gpus",
    kind: "integer",
    single: true,
    proto: 66,
    about: "GPU slots of the daemon's host",
  },
] as const satisfies readonly RunField[];

/** `max_rate_hz` as `maxRateHz`: a property of rows and of messages. */
export function propertyOf(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Every row of the table that has a column, those inside objects too. */
export function storedFields(
  fields: readonly RunField[] = RUN_FIELDS,
): (RunField & { column: string })[] {
  return fields.flatMap((field) => [
    ...(field.column === undefined ? [] : [{ ...field, column: field.column }]),
    ...storedFields(field.fields ?? []),
  ]);
}

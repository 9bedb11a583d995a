/**
 * What programs get from the verbs: the contract of docs/cli.md. The types that the verbs print are taken from here (as
 * types alone: no verb loads a library for it); tests/cli/shapes_test.ts holds the tables of the docs and the real output
 * against it, a field too many as well as one too few.
 */
import { z } from "zod";
import { RUN_STATES } from "../registry/lifecycle/lifecycle.ts";

const text = z.string;
const integer = z.int;
const time = () => z.iso.datetime();
const maybe = <T extends z.ZodType>(schema: T) => schema.nullable();

const outcome = z.enum(["succeeded", "failed", "canceled"]);
const state = z.enum(RUN_STATES);

export const Run = z.strictObject({
  run_id: text(),
  name: text(),
  state,
  outcome: maybe(outcome),
  reason: maybe(text()),
  hint: maybe(text()),
  attempt: integer(),
  max_attempts: integer(),
  priority: integer(),
  queue_position: maybe(integer()),
  waiting_for: maybe(text()),
  gpus_requested: integer(),
  gpu_slots: z.array(integer()),
  tags: z.array(text()),
  digest: text(),
  submitted_at: maybe(time()),
  started_at: maybe(time()),
  finished_at: maybe(time()),
  last_heartbeat: maybe(time()),
  exit_code: maybe(integer()),
  exit_signal: maybe(text()),
  cancel_requested: z.boolean(),
  directory: text(),
  max_steps: maybe(integer()),
  max_rate_hz: maybe(integer()),
  worker_id: maybe(text()),
  worker_pid: maybe(integer()),
  proxy_pid: maybe(integer()),
  telemetry: z.strictObject({
    steps: integer(),
    episodes: integer(),
    events: integer(),
    other_lines: integer(),
    malformed_lines: integer(),
    violations: z.record(text(), integer()),
    journal_position: integer(),
    journal_size: integer(),
    mean_reward_100: maybe(z.number()),
    steps_per_second: z.number(),
    last_record_at: maybe(time()),
  }),
  capabilities: maybe(z.strictObject({
    worker_kind: text(),
    proto_version: text(),
    schema_id: text(),
    schema_version: integer(),
    supports_pause: z.boolean(),
    supports_checkpoint: z.boolean(),
  })),
});

const Transition = z.strictObject({
  seq: integer(),
  from: maybe(state),
  to: state,
  event: text(),
  reason: maybe(text()),
  attempt: integer(),
  at: maybe(time()),
});

/** A run as the daemon tells all of it; artifacts are asked for apart. */
export const RunDetail = Run.extend({
  transitions: z.array(Transition),
  config: z.unknown(),
  held_to: z.array(text()),
  stderr_tail: z.array(text()),
});

export const Artifact = z.strictObject({
  path: text(),
  kind: text(),
  bytes: integer(),
  sha256: text(),
  step: maybe(integer()),
  at: maybe(time()),
});

export const ShownRun = RunDetail.extend({ artifacts: z.array(Artifact) });

export const Event = z.strictObject({
  seq: integer(),
  at: maybe(time()),
  run_id: text(),
  run_name: text(),
  kind: text(),
  attempt: integer(),
  data: z.record(text(), z.unknown()),
});

export const Submission = z.strictObject({ run_id: text(), digest: text() });

export const Deletion = z.strictObject({ run_id: text(), freed_bytes: integer() });

export const Pruning = z.strictObject({
  dry_run: z.boolean(),
  freed_bytes: integer(),
  runs: z.array(z.strictObject({
    run_id: text(),
    name: text(),
    state,
    bytes: integer().nullable(),
    because: z.enum(["number", "age", "size"]),
  })),
});

export const Usage = z.strictObject({
  runs: z.array(z.strictObject({
    run_id: text(),
    name: maybe(text()),
    state: maybe(state),
    bytes: integer(),
    telemetry_bytes: integer(),
  })),
  directories: z.strictObject({ runs: integer(), evals: integer(), custom_scripts: integer() }),
  telemetry_bytes: integer(),
  registry_bytes: integer(),
  total_bytes: integer(),
});

export const Host = z.strictObject({
  version: text(),
  pid: integer(),
  started_at: maybe(time()),
  state_dir: text(),
  listen: text(),
  http: text(),
  gpus: z.array(z.strictObject({ slot: integer(), run_id: maybe(text()), name: text() })),
  cpus: integer(),
  load_average: z.array(z.number()),
  memory_bytes: integer(),
  memory_available_bytes: integer(),
  disk_bytes: integer(),
  disk_available_bytes: integer(),
  telemetry_bytes: integer(),
  rss_bytes: integer(),
  runs_by_state: z.record(text(), integer()),
});

export const Series = z.strictObject({ name: text(), points: integer(), last: maybe(z.number()) });

export const Bucket = z.strictObject({
  first_x: integer(),
  last_x: integer(),
  min: z.number(),
  max: z.number(),
  mean: z.number(),
  last: z.number(),
  count: integer(),
  at: time(),
  step: maybe(integer()),
});

export const Comparison = z.strictObject({
  runs: z.array(RunDetail),
  metrics: z.record(text(), z.array(maybe(z.number()))),
  config: z.record(text(), z.array(text())),
});

export const Import = z.strictObject({
  run_id: text(),
  name: text(),
  status: z.enum(["submitted", "already imported", "found"]),
  directory: text(),
  files: integer(),
  series: integer(),
  points: integer(),
  episodes: integer(),
  texts: integer(),
  parameters: integer(),
  left_out: z.array(text()),
});

export const Validation = z.strictObject({
  valid: z.boolean(),
  digest: maybe(text()),
  violations: z.array(z.strictObject({ path: text(), message: text() })),
});

const Finding = z.strictObject({
  check: text(),
  severity: z.enum(["error", "warning", "note"]),
  path: text(),
  message: text(),
  remedy: text(),
});

export const Examination = z.strictObject({
  state_dir: text(),
  repaired: z.array(z.strictObject({ finding: Finding, done: z.boolean(), outcome: text() })),
  findings: z.array(Finding),
});

/** A list, or the word for everything. */
const entries = z.union([z.literal("all"), z.array(text())]);

export const PermissionPlan = z.strictObject({
  read: entries,
  write: entries,
  net: entries,
  run: entries,
  env: entries,
  sys: entries,
});

/** A number that JSON cannot write is null, and its name stands beside it. */
const named = z.enum(["NaN", "Infinity", "-Infinity"]).optional();

/** Where a record stands in a run's log. */
const placed = { seq: integer(), run_id: text(), attempt: integer() };

/** When a record was made, and who made it. */
const said = {
  timestamp: time(),
  ts_ns: text(),
  agent_id: text().optional(),
  worker_id: text().optional(),
};

/** Records are rendered by the daemon (src/telemetry/public_json.ts); what has nothing to say is left out where that is optional. */
export const Step = z.strictObject({
  ...placed,
  episode_index: integer(),
  step_index: integer(),
  action: z.unknown(),
  observation: z.unknown(),
  reward: maybe(z.number()),
  reward_text: named,
  terminated: z.boolean(),
  truncated: z.boolean(),
  ...said,
  policy_label: text().optional(),
  backend: text().optional(),
  render_hint: z.unknown().optional(),
  render_payload: z.unknown().optional(),
  frame_ref: text().optional(),
  payload_version: integer().optional(),
  episode_seed: integer().optional(),
  info: z.unknown().optional(),
});

export const Episode = z.strictObject({
  ...placed,
  episode_index: integer(),
  total_reward: maybe(z.number()),
  total_reward_text: named,
  steps: integer(),
  terminated: z.boolean(),
  truncated: z.boolean(),
  ...said,
  metadata: z.unknown().optional(),
});

export const WorkerEvent = z.strictObject({
  ...placed,
  event: text(),
  timestamp: time(),
  ts_ns: text(),
  payload: z.unknown().optional(),
});

export const Point = z.strictObject({
  seq: integer(),
  run_id: text(),
  name: text(),
  value: z.number(),
  step: integer(),
  timestamp: time(),
});

/** Each shape under the heading that documents it. */
export const SHAPES = {
  "Run": Run,
  "RunDetail": RunDetail,
  "ShownRun": ShownRun,
  "Artifact": Artifact,
  "Event": Event,
  "Submission": Submission,
  "Deletion": Deletion,
  "Pruning": Pruning,
  "Usage": Usage,
  "Host": Host,
  "Series": Series,
  "Bucket": Bucket,
  "Comparison": Comparison,
  "Import": Import,
  "Validation": Validation,
  "Examination": Examination,
  "PermissionPlan": PermissionPlan,
  "Step": Step,
  "Episode": Episode,
  "WorkerEvent": WorkerEvent,
  "Point": Point,
} as const;

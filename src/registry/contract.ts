/**
 * The JSON for programs and the page: what the verbs print (docs/reference/cli.md) and what the page's API answers (docs/reference/page.md). The
 * program takes only types from here: only tests load this module. tests/cli/contract_test.ts compares it with the tables of
 * the docs and the real output, tests/ui/contract_test.ts with the answers of the API; a field too many fails as well as one
 * too few.
 */
import * as z from "zod";
import { publicFields, type PublicType, type TelemetryKind } from "../records/record_fields.ts";
import { RUN_STATES } from "./lifecycle/lifecycle.ts";

const text = z.string;
const integer = z.int;
const time = () => z.iso.datetime();
/** Unix milliseconds: times of the page's API. */
const milliseconds = z.int;
const maybe = <T extends z.ZodType>(schema: T) => schema.nullable();

const outcome = z.enum(["succeeded", "failed", "canceled"]);
const state = z.enum(RUN_STATES);

const placement = <T extends z.ZodType>(expected_start: T) =>
  z.strictObject({
    launcher: text(),
    name: text(),
    job: maybe(text()),
    phase: z.enum(["intended", "queued", "running", "ended"]),
    waiting_for: maybe(text()),
    expected_start,
    nodes: z.array(text()),
    gpus: z.array(text()),
    end: maybe(text()),
  });

/** The reward of episodes, if a metric has it. */
const objective = z.strictObject({ name: text(), value: maybe(z.number()) });
const toldReward = z.strictObject({ name: text(), value: z.number() });

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
  notes: text(),
  digest: text(),
  submitted_at: maybe(time()),
  started_at: maybe(time()),
  finished_at: maybe(time()),
  last_heartbeat: maybe(time()),
  exit_code: maybe(integer()),
  exit_signal: maybe(text()),
  cancel_requested: z.boolean(),
  directory: text(),
  resume_from: maybe(text()),
  max_steps: maybe(integer()),
  max_rate_hz: maybe(integer()),
  worker_id: maybe(text()),
  worker_pid: maybe(integer()),
  proxy_pid: maybe(integer()),
  placement: maybe(placement(maybe(time()))),
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
    last_output_at: maybe(time()),
    metrics: integer(),
    told_step: integer(),
    overwritten_steps: integer(),
    overwritten_episodes: integer(),
    told_reward: maybe(toldReward),
    /** The metric by which the run is judged, as `eval/reward:max`, if one was chosen. */
    objective: maybe(objective),
  }),
  capabilities: maybe(z.strictObject({
    worker_kind: text(),
    proto_version: text(),
    schema_id: text(),
    schema_version: integer(),
    supports_pause: z.boolean(),
    supports_checkpoint: z.boolean(),
  })),
  /** In `list`: the requested columns `param.…` and `metric.…`. */
  values: z.record(text(), z.unknown()).optional(),
});

const transition = <T extends z.ZodType>(at: T) =>
  z.strictObject({
    seq: integer(),
    from: maybe(state),
    to: state,
    event: text(),
    reason: maybe(text()),
    attempt: integer(),
    at,
  });

const Transition = transition(maybe(time()));

const parameters = z.array(z.strictObject({ name: text(), value: z.unknown(), source: text() }));

/** Everything that the daemon says of a run; artifacts are requested separately. */
export const RunDetail = Run.extend({
  transitions: z.array(Transition),
  parameters,
  config: z.unknown(),
  held_to: z.array(text()),
  ranks: z.array(z.strictObject({ rank: integer(), node: maybe(text()), code: maybe(integer()), first: z.boolean() })),
  stderr_tail: z.array(text()),
});

const artifact = <T extends z.ZodType>(at: T) =>
  z.strictObject({
    path: text(),
    kind: text(),
    bytes: integer(),
    sha256: text(),
    step: maybe(integer()),
    window_id: text(),
    at,
  });

export const Artifact = artifact(maybe(time()));

export const ShownRun = RunDetail.extend({ artifacts: z.array(Artifact) });

const event = <T extends z.ZodType, D extends z.ZodType>(at: T, data: D) =>
  z.strictObject({
    seq: integer(),
    at,
    run_id: text(),
    run_name: text(),
    kind: text(),
    attempt: integer(),
    data,
  });

export const Event = event(maybe(time()), z.record(text(), z.unknown()));

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

const host = <T extends z.ZodType>(started_at: T) =>
  z.strictObject({
    version: text(),
    pid: integer(),
    started_at,
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

export const Host = host(maybe(time()));

/** A series with a summary of its values. */
export const Series = z.strictObject({
  name: text(),
  points: integer(),
  non_finite: integer(),
  last: maybe(z.number()),
  min: maybe(z.number()),
  max: maybe(z.number()),
  mean: maybe(z.number()),
  min_step: maybe(integer()),
  max_step: maybe(integer()),
  source: text(),
  /** With `metrics --sources`. */
  copy_of: maybe(text()),
});

export const Bucket = z.strictObject({
  first_x: integer(),
  last_x: integer(),
  min: maybe(z.number()),
  max: maybe(z.number()),
  mean: maybe(z.number()),
  last: maybe(z.number()),
  count: integer(),
  at: time(),
  step: maybe(integer()),
  /** Null for a run with one attempt. */
  attempt: maybe(integer()),
  /** A later attempt wrote these positions again. */
  overwritten: z.boolean(),
});

const Comparison = z.strictObject({
  runs: z.array(RunDetail),
  parameters: z.record(text(), z.array(z.unknown())),
  metrics: z.record(text(), z.array(maybe(z.number()))),
  config: z.record(text(), z.array(text())),
});

export const GroupValue = z.strictObject({
  mean: z.number(),
  sd: z.number(),
  min: z.number(),
  max: z.number(),
  runs: integer(),
});

export const RunGroup = z.strictObject({
  group: text(),
  runs: z.array(text()),
  states: z.record(text(), integer()),
  values: z.record(text(), maybe(z.union([GroupValue, text()]))),
});

export const GroupPoint = z.strictObject({
  x: z.number(),
  mean: z.number(),
  low: z.number(),
  high: z.number(),
  runs: integer(),
});

const GroupComparison = z.strictObject({
  groups: z.array(z.strictObject({ name: text(), runs: z.array(text()) })),
  figures: z.record(text(), z.array(maybe(GroupValue))),
  metrics: z.record(text(), z.array(maybe(GroupValue))),
  parameters: z.record(text(), z.array(text())),
  curves: z.array(z.strictObject({ name: text(), points: z.array(GroupPoint) })),
});

export const Import = z.strictObject({
  run_id: text(),
  name: text(),
  status: z.enum(["submitted", "imported", "already imported", "found"]),
  directory: text(),
  files: integer(),
  series: integer(),
  points: integer(),
  episodes: integer(),
  texts: integer(),
  parameters: integer(),
  left_out: z.array(text()),
});

const Validation = z.strictObject({
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

/** A list, or "all". */
const entries = z.union([z.literal("all"), z.array(text())]);

const PermissionPlan = z.strictObject({
  read: entries,
  write: entries,
  net: entries,
  run: entries,
  env: entries,
  sys: entries,
});

const RECORD_TYPES: Record<PublicType, () => z.ZodType> = {
  integer,
  number: () => maybe(z.number()),
  flag: z.boolean,
  text,
  json: z.unknown,
  time,
  nanoseconds: text,
};

/** A number that JSON cannot express is null, and its name is in this field. */
const named = z.enum(["NaN", "Infinity", "-Infinity"]).optional();

/** A record as src/gen/records/public_lines.ts writes it. */
function record(kind: TelemetryKind) {
  const fields = publicFields(kind).flatMap(({ name, type, optional }): [string, z.ZodType][] => {
    const schema = RECORD_TYPES[type]();
    return [
      [name, optional ? schema.optional() : schema],
      ...(type === "number" ? [[`${name}_text`, named] as [string, z.ZodType]] : []),
    ];
  });
  return z.strictObject(Object.fromEntries(fields));
}

export const Step = record("steps");
export const Episode = record("episodes");
export const WorkerEvent = record("events");
export const Point = record("metrics");

// ---- the page's API

/** What the table of runs shows; sent every second for a live run. */
export const PageRun = z.strictObject({
  run_id: text(),
  name: text(),
  state,
  attempt: integer(),
  max_attempts: integer(),
  priority: integer(),
  tags: z.array(text()),
  notes: text(),
  is_eval: z.boolean(),
  gpus: z.array(integer()),
  gpus_requested: integer(),
  queue_position: integer(),
  waiting_for: text(),
  created_at: milliseconds(),
  updated_at: milliseconds(),
  started_at: maybe(milliseconds()),
  finished_at: maybe(milliseconds()),
  outcome: maybe(outcome),
  reason: maybe(text()),
  steps: integer(),
  episodes: integer(),
  /** Points of metrics that are stored, with those that mosaic adds itself (`system/…`). */
  metrics: integer(),
  /** How many of the recorded ones a later attempt has recorded again. */
  overwritten: z.strictObject({ steps: integer(), episodes: integer() }),
  steps_per_second: z.number(),
  mean_reward_100: maybe(z.number()),
  told_reward: maybe(toldReward),
  objective: maybe(objective),
  last_record_at: maybe(milliseconds()),
  last_output_at: maybe(milliseconds()),
  backlog_bytes: integer(),
  max_steps: integer(),
  cancel_requested: z.boolean(),
  pause_requested: z.boolean(),
  max_rate_hz: integer(),
  placement: maybe(placement(maybe(milliseconds()))),
});

/** The newest seq of each kind of record. */
export const PageHeads = z.strictObject({
  steps: integer(),
  episodes: integer(),
  events: integer(),
  metrics: integer(),
});

/** Everything about one run except its config and its telemetry. */
export const PageRunDetail = PageRun.extend({
  digest: text(),
  base_dir: text(),
  directory: text(),
  hint: maybe(text()),
  exit_code: maybe(integer()),
  exit_signal: maybe(text()),
  stderr_tail: z.array(text()),
  cancel_reason: maybe(text()),
  last_heartbeat_at: maybe(milliseconds()),
  not_before: maybe(milliseconds()),
  worker_pid: maybe(integer()),
  proxy_pid: maybe(integer()),
  host_gpus: integer(),
  worker_id: text(),
  agent_id: text(),
  worker_kind: maybe(text()),
  proto_version: maybe(text()),
  schema_id: maybe(text()),
  schema_version: maybe(integer()),
  supports_pause: z.boolean(),
  supports_checkpoint: z.boolean(),
  resume_from: maybe(text()),
  other_lines: integer(),
  malformed_lines: integer(),
  violations: z.record(text(), integer()),
  heads: PageHeads,
  parameters,
  transitions: z.array(transition(milliseconds())),
  artifacts: z.array(artifact(milliseconds())),
});

export const PageEvent = event(milliseconds(), z.unknown());

export const PageHost = host(milliseconds());

/** JSON has no NaN and no infinities: their names are sent. */
const real = z.union([z.number(), z.enum(["NaN", "Infinity", "-Infinity"])]);

/** Buckets of a series, as columns. */
export const PageSeries = z.strictObject({
  name: text(),
  first_x: z.array(integer()),
  last_x: z.array(integer()),
  min: z.array(real),
  max: z.array(real),
  mean: z.array(real),
  /** For the bucket's last point. */
  last: z.array(real),
  count: z.array(integer()),
  at: z.array(milliseconds()),
  step: z.array(maybe(integer())),
  /** Null for a run with one attempt. */
  attempt: z.array(maybe(integer())),
  overwritten: z.array(z.boolean()),
  /** The records of these positions are missing or damaged. */
  damaged: z.array(z.boolean()),
});

/**
 * Names of series of several runs: those that are curves, and those with at most one point per run, with each run's value
 * (without values for more than 40 runs).
 */
export const PageSeriesNames = z.strictObject({
  names: z.array(text()),
  once: z.array(z.strictObject({ name: text(), values: z.array(maybe(z.number())) })),
});

/** A run in a comparison. */
export const PageComparedRun = PageRun.extend({ parameters });

/** Names that columns of the table of runs can have. */
export const PageColumnNames = z.strictObject({ parameters: z.array(text()), metrics: z.array(text()) });

/** A column of the table of runs, by run id, without runs that have no value. */
export const PageColumn = z.strictObject({ id: text(), values: z.record(text(), z.unknown()) });

/** A step, or an episode, with a picture. For an episode, `step` is its length and `reward` its total. */
export const PageFrame = z.strictObject({
  seq: integer(),
  episode: integer(),
  step: integer(),
  reward: real,
  action: z.unknown(),
  payload: z.unknown(),
});

/** A text or a histogram among a run's events. */
export const PageMediaEvent = z.strictObject({ seq: integer(), kind: text(), tag: text(), step: maybe(integer()) });

/** Data of a frame of a running environment. */
export const PageLiveFrame = z.strictObject({
  /** The environment: the run's id, and `part`. */
  of: text(),
  run_id: text(),
  part: text(),
  source: z.enum(["ring", "steps", "episodes"]),
  n: integer(),
  /** Unix milliseconds: when the frame was read, or its step was recorded. */
  at: integer(),
  width: integer(),
  height: integer(),
  channels: integer(),
  /**
   * Ranges (first row, number of rows) whose pixels are sent; the other rows are those of the frame before; null: all rows.
   */
  rows: maybe(z.array(z.tuple([integer(), integer()]))),
  episode: maybe(integer()),
  step: maybe(integer()),
  /** The run's step, if the frame itself names none. */
  run_step: maybe(integer()),
  agent: maybe(text()),
  action: z.unknown(),
  reward: maybe(real),
  rolling_return: maybe(real),
  steps_per_second: maybe(real),
  payload: z.unknown(),
});

// ---- of a state directory

export const Backup = z.strictObject({
  directory: text(),
  state_dir: text(),
  mosaic: text(),
  began_at: time(),
  finished_at: maybe(time()),
  runs: integer(),
  live_runs: integer(),
  files: integer(),
  copied_files: integer(),
  copied_bytes: integer(),
  database_bytes: integer(),
  secrets: z.boolean(),
  left_out: z.array(text()),
});

export const Token = z.strictObject({
  name: text(),
  role: z.enum(["read", "submit", "operate", "admin"]),
  created_at: time(),
  expires_at: maybe(time()),
});

/** Printed once. */
export const CreatedToken = Token.extend({ secret: text() });

export const AuditEntry = z.strictObject({
  at: time(),
  who: text(),
  address: text(),
  uid: integer().optional(),
  action: text(),
  run: text().optional(),
  outcome: text(),
  message: text().optional(),
  skipped: integer().optional(),
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
  "RunGroup": RunGroup,
  "GroupValue": GroupValue,
  "GroupComparison": GroupComparison,
  "GroupPoint": GroupPoint,
  "Import": Import,
  "Validation": Validation,
  "Examination": Examination,
  "PermissionPlan": PermissionPlan,
  "Backup": Backup,
  "Token": Token,
  "CreatedToken": CreatedToken,
  "AuditEntry": AuditEntry,
  "Step": Step,
  "Episode": Episode,
  "WorkerEvent": WorkerEvent,
  "Point": Point,
} as const;

/**
 * The JSON for programs and the page: what the verbs print (docs/reference/json.md) and what the
 * page's API answers (docs/reference/page.md). The program takes only types from here: only tests
 * load this module. tests/cli/contract_test.ts compares it with the tables of the docs and the real
 * output, tests/ui/contract_test.ts with the answers of the API; a field too many fails as well as
 * one too few.
 */
import * as z from "zod";
import { publicFields, type PublicType, type TelemetryKind } from "../records/record_fields.ts";
import { BASE_DIRS } from "../base/layout.ts";
import {
  ARTIFACT_FIELDS,
  EVENT_FIELDS,
  GPU_FIELDS,
  HOST_FIELDS,
} from "../runs/fields/host_fields.ts";
import { RUN_FIELDS, type RunField, type RunFieldKind } from "../runs/fields/run_fields.ts";
import { OUTCOMES, PLACEMENT_PHASES, RUN_STATES } from "../runs/fields/lifecycle_states.ts";

const text = z.string;
const integer = z.int;
const time = () => z.iso.datetime();
/** Unix milliseconds: times of the page's API. */
const milliseconds = z.int;
const maybe = <T extends z.ZodType>(schema: T) => schema.nullable();

const state = z.enum(RUN_STATES);

const RUN_TYPES: Record<Exclude<RunFieldKind, "object">, () => z.ZodType> = {
  text,
  state: () => state,
  outcome: () => z.enum(OUTCOMES),
  phase: () => z.enum(PLACEMENT_PHASES),
  base: () => z.enum(BASE_DIRS),
  integer,
  number: z.number,
  flag: z.boolean,
  time,
  texts: () => z.array(text()),
  integers: () => z.array(integer()),
  numbers: () => z.array(z.number()),
  counts: () => z.record(text(), integer()),
  process: integer,
  config: z.unknown,
  any: z.unknown,
};

function runShape(fields: readonly RunField[]): Record<string, z.ZodType> {
  return Object.fromEntries(fields.flatMap(({ json, kind, fields, list, null: where }) => {
    if (json === undefined) return [];
    const one = fields === undefined
      ? RUN_TYPES[kind as Exclude<RunFieldKind, "object">]()
      : z.strictObject(runShape(fields));
    const type = list ? z.array(one) : one;
    return [[json, where === "json" || where === "both" ? maybe(type) : type]];
  }));
}

const ALL: readonly RunField[] = RUN_FIELDS;

export const Run = z.strictObject({
  ...runShape(ALL.filter(({ single }) => !single)),
  /** In `list`: the requested columns `param.…` and `metric.…`. */
  values: z.record(text(), z.unknown()).optional(),
});

/** Everything that the daemon says of a run; artifacts are requested separately. */
export const RunDetail = Run.extend(runShape(ALL.filter(({ single }) => single)));

export const Artifact = z.strictObject(runShape(ARTIFACT_FIELDS));

export const ShownRun = RunDetail.extend({ artifacts: z.array(Artifact) });

export const Event = z.strictObject({
  ...runShape(EVENT_FIELDS),
  data: z.record(text(), z.unknown()),
});

export const Submission = z.strictObject({ run_id: text(), digest: text() });

export const Deletion = z.strictObject({
  run_id: text(),
  freed_bytes: integer(),
  kept_until: maybe(time()),
});

/** What `mosaic observe` prints. */
export const ObservedFiles = z.strictObject({
  run_id: text(),
  observed: z.array(text()),
  files: z.array(
    z.strictObject({
      path: text(),
      format: maybe(text()),
      records: integer(),
      note: maybe(text()),
    }),
  ),
});

export const Pruning = z.strictObject({
  dry_run: z.boolean(),
  freed_bytes: integer(),
  runs: z.array(z.strictObject({
    run_id: text(),
    name: text(),
    state,
    bytes: integer().nullable(),
    because: z.enum(["number", "age", "size", "trash"]),
  })),
});

export const Usage = z.strictObject({
  runs: z.array(z.strictObject({
    run_id: text(),
    name: maybe(text()),
    state: maybe(state),
    bytes: integer(),
    telemetry_bytes: integer(),
    deleted_at: maybe(time()),
  })),
  directories: z.strictObject({ runs: integer(), evals: integer(), custom_scripts: integer() }),
  telemetry_bytes: integer(),
  registry_bytes: integer(),
  trash_bytes: integer(),
  total_bytes: integer(),
});

export const Gpu = z.strictObject(runShape(GPU_FIELDS));

export const Host = z.strictObject({ ...runShape(HOST_FIELDS), gpus: z.array(Gpu) });

const gpuTime = {
  gpu_hours: z.number(),
  measured_hours: z.number(),
  idle_hours: z.number(),
  idle_share: maybe(z.number()),
};

/** GPU time by who submitted the runs, and the disk space of those that are there now. */
export const UserGpuUse = z.strictObject({
  user: text(),
  runs: integer(),
  ...gpuTime,
  disk_bytes: integer(),
  disk_limit_bytes: maybe(integer()),
});

/** The same by the sweep of the runs; "" is of those without one. */
export const SweepGpuUse = z.strictObject({ sweep: text(), runs: integer(), ...gpuTime });

export const RunGpuUse = z.strictObject({ run_id: text(), name: text(), user: text(), ...gpuTime });

/** A run has read an artifact of another. */
export const ArtifactUse = z.strictObject({
  run_id: text(),
  run_name: text(),
  source_run_id: maybe(text()),
  source_run_name: text(),
  path: text(),
  sha256: text(),
  artifact: text(),
  at: time(),
  source_deleted: z.boolean(),
  changed: z.boolean(),
});

/** A content that has a name. */
export const NamedArtifact = z.strictObject({
  name: text(),
  version: integer(),
  aliases: z.array(text()),
  sha256: text(),
  run_id: text(),
  run_name: maybe(text()),
  path: text(),
  bytes: integer(),
  at: time(),
  file: maybe(text()),
});

export const Lineage = z.strictObject({
  run_id: text(),
  run_name: text(),
  uses: z.array(ArtifactUse),
  used_by: z.array(ArtifactUse),
  names: z.array(NamedArtifact),
});

/** A test message. */
export const Sent = z.strictObject({ receiver: text(), error: maybe(text()) });

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

/** The newest seq of each kind of record. */
export const PageHeads = z.strictObject({
  steps: integer(),
  episodes: integer(),
  events: integer(),
  metrics: integer(),
});

/** A single run, without its config. */
export const PageRunDetail = ShownRun.omit({ config: true }).extend({ heads: PageHeads });

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
 * Names of series of several runs: those that are curves, and those with at most one point per run,
 * with each run's value (without values for more than 40 runs).
 */
export const PageSeriesNames = z.strictObject({
  names: z.array(text()),
  once: z.array(z.strictObject({ name: text(), values: z.array(maybe(z.number())) })),
});

/** A run in a comparison. */
export const PageComparedRun = Run.extend({ parameters: RunDetail.shape.parameters! });

/** Names that columns of the table of runs can have. */
export const PageColumnNames = z.strictObject({
  parameters: z.array(text()),
  metrics: z.array(text()),
});

/** A column of the table of runs, by run id, without runs that have no value. */
export const PageColumn = z.strictObject({ id: text(), values: z.record(text(), z.unknown()) });

/**
 * A step, or an episode, with a picture. For an episode, `step` is its length and `reward` its
 * total.
 */
export const PageFrame = z.strictObject({
  seq: integer(),
  episode: integer(),
  step: integer(),
  reward: real,
  action: z.unknown(),
  payload: z.unknown(),
});

/** A text or a histogram among a run's events. */
export const PageMediaEvent = z.strictObject({
  seq: integer(),
  kind: text(),
  tag: text(),
  step: maybe(integer()),
});

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
   * Ranges (first row, number of rows) whose pixels are sent; the other rows are those of the frame
   * before; null: all rows.
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
  own: z.boolean(),
  own_only: z.boolean(),
  created_at: time(),
  expires_at: maybe(time()),
});

/** Printed once. */
export const CreatedToken = Token.extend({ secret: text() });

/** A host of `mosaic host list`. */
export const KnownHost = z.strictObject({
  name: text(),
  ssh: text(),
  mosaic: text(),
  version: text(),
  state: text(),
});

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

/** What ran, for the page. */
export const PageCode = z.strictObject({
  facts: z.array(z.strictObject({ name: text(), text: text() })),
  files: z.array(z.strictObject({ path: text(), change: text() })),
  left_out: z.array(z.strictObject({ path: text(), why: text() })),
  masked: z.array(text()),
  packages: z.array(text()),
  /** Its beginning. */
  patch: text(),
  patch_bytes: integer(),
});

export const CodeOfAttempt = z.strictObject({
  attempt: integer(),
  at: time(),
  code: z.unknown(),
  environment: z.unknown(),
});
export const RunCode = z.strictObject({
  run_id: text(),
  command: z.array(text()),
  records: z.array(CodeOfAttempt),
});
export const Difference = z.strictObject({ name: text(), a: maybe(text()), b: maybe(text()) });
export const RunDifferences = z.strictObject({
  a: z.strictObject({ run_id: text(), name: text() }),
  b: z.strictObject({ run_id: text(), name: text() }),
  command: z.array(Difference),
  parameters: z.array(Difference),
  code: z.array(Difference),
  packages: z.array(Difference),
  environment: z.array(Difference),
  config: z.array(Difference),
  patch: z.optional(z.array(text())),
});

/** As src/sweeps/results/sweep_json.ts describes it. */
export const Sweep = z.strictObject({
  sweep_id: text(),
  name: text(),
  state: text(),
  created_at: time(),
  total: integer(),
  made: integer(),
  states: z.unknown(),
  parameters: z.array(text()),
  seeds: z.array(text()),
  max_parallel: maybe(integer()),
  budget: z.unknown(),
  metric: z.unknown(),
  stop: z.unknown(),
  waiting_for: maybe(text()),
  detail: z.unknown().optional(),
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
  "ObservedFiles": ObservedFiles,
  "Usage": Usage,
  "Host": Host,
  "Gpu": Gpu,
  "UserGpuUse": UserGpuUse,
  "SweepGpuUse": SweepGpuUse,
  "RunGpuUse": RunGpuUse,
  "Sent": Sent,
  "Lineage": Lineage,
  "ArtifactUse": ArtifactUse,
  "NamedArtifact": NamedArtifact,
  "Series": Series,
  "Bucket": Bucket,
  "Comparison": Comparison,
  "RunGroup": RunGroup,
  "GroupValue": GroupValue,
  "GroupComparison": GroupComparison,
  "GroupPoint": GroupPoint,
  "RunCode": RunCode,
  "CodeOfAttempt": CodeOfAttempt,
  "RunDifferences": RunDifferences,
  "Difference": Difference,
  "Sweep": Sweep,
  "Import": Import,
  "Validation": Validation,
  "Examination": Examination,
  "PermissionPlan": PermissionPlan,
  "Backup": Backup,
  "Token": Token,
  "CreatedToken": CreatedToken,
  "KnownHost": KnownHost,
  "AuditEntry": AuditEntry,
  "Step": Step,
  "Episode": Episode,
  "WorkerEvent": WorkerEvent,
  "Point": Point,
} as const;

/** A stored config for the engine: typed, with all defaults. */
import { type AlertRule, alertRules, withShareRule } from "./alerts.ts";
import { truthy, type UsedArtifact } from "./prepare.ts";
import { readJson, toPlain } from "./lossless_json.ts";
import { type QueuePlan, queuePlan } from "./queue_fields.ts";
import {
  BACKPRESSURE_POLICIES,
  type FlatConfig,
  flatConfig,
  IMPORT_WORKER,
  type LAUNCHERS,
  RESTART_CAUSES,
  SANDBOXES,
  type SlurmFields,
} from "./schema.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { TEXT_DIALECTS, type TextDialect } from "../readers/text/text_dialects.ts";
import { rawJson } from "../base/text/json_text.ts";
import { isPlainObject } from "../base/text/exact_numbers.ts";
import { pathText } from "./violations.ts";

export type RestartCause = typeof RESTART_CAUSES[number];
export type BackpressurePolicy = typeof BACKPRESSURE_POLICIES[number];

/**
 * Defaults of the limits and policies that a config may set; seconds unless the name says
 * otherwise.
 */
const PLAN_DEFAULTS = {
  restartBackoffSeconds: 5,
  restartBackoffMaxSeconds: 600,
  minRateHz: 1,
  starvedSeconds: 10,
  lingerSeconds: 60,
  umask: "077",
} as const;

export interface RunPlan {
  entryPoint: string;
  /** Arguments of the entry point. */
  arguments: string[];
  environment: Record<string, string>;
  /** Names of the submitting shell's variables that the run does not get. */
  leftOut: string[];
  /** Null: no limit. */
  resources: {
    cpus: number | null;
    memoryMb: number | null;
    gpus: { requested: number; isShared: boolean };
  };
  /**
   * `artifacts.keep_checkpoints` is not among them: the original's forms say `false` without
   * meaning it.
   */
  artifacts: {
    persistLogs: boolean;
    keepJournal: boolean;
    dropCheckpoints: boolean;
    /** Null: all. */
    keepVideos: number | null;
  };
  /** null: no such limit. */
  /**
   * A checkpoint of another run that the first attempt begins with a copy of; null: it begins anew.
   */
  resumeFrom: string | null;
  schedule: {
    maxDurationSeconds: number | null;
    maxSteps: number | null;
    stallTimeoutSeconds: number | null;
  };
  worker: WorkerPlan;
  restart: { backoffSeconds: number; on: readonly RestartCause[] };
  alerts: readonly AlertRule[];
  backpressure: { policy: BackpressurePolicy; minRateHz: number; starvedSeconds: number };
  preflight: PreflightPlan;
  telemetry: TelemetryPlan;
  /** null: the daemon's. */
  heartbeatTimeoutSeconds: number | null;
  handshakeTimeoutSeconds: number | null;
  sandbox: { kind: typeof SANDBOXES[number]; network: boolean; writable: string[] };
  launcher: typeof LAUNCHERS[number];
  queue: QueuePlan;
  slurm: SlurmPlan;
  /** Octal; of the worker's files. */
  umask: string;
  /** Commit, changes and packages are recorded. */
  recordsCode: boolean;
  /** Artifacts of other runs that it reads. */
  uses: UsedArtifact[];
  webhook: { url: string; events: string[] | null; secretFile: string | null } | null;
  /**
   * How the original's GUI wants the worker to show its frames; null if the config says nothing.
   */
  fastlane: { only: boolean; slot: number } | null;
}

/** Empty texts mean: not given. */
export interface WorkerPlan {
  module: string;
  script: string;
  arguments: string[];
  hasConfig: boolean;
  useGrpc: boolean;
  grpcTarget: string;
  workerId: string;
  python: string;
  supportsPause: boolean;
  cwd: string;
  /** Name or number of the user that it runs as. */
  user: string;
  /** Somebody else starts its proxy. */
  external: boolean;
  /** Its proxy uploads the files of its run's directory. */
  uploadFiles: boolean;
}

export interface SlurmPlan {
  /** Includes the defaults of the daemon that took the submission. */
  fields: SlurmFields;
  lingerSeconds: number;
  nodes: number;
  /** Ranks on each node. */
  tasksPerNode: number;
  /** null: the worker continues, however long its daemon is away. */
  leaseSeconds: number | null;
}

export interface PreflightPlan {
  files: { path: string; sha256: string | null }[];
  modules: string[];
  minFreeDiskMb: number;
  gpu: boolean;
}

export interface TelemetryPlan {
  strict: boolean;
  schemaId: string | null;
  /** JSON Schema of the records; null if the config has none. */
  schema: Record<string, unknown> | null;
  /** Dialects of printed text that are not read. */
  textOff: readonly TextDialect[];
  /** Patterns of files to read in addition to those that are found; null: no files are read. */
  observe: readonly string[] | null;
}

/** Cache of recent plans: every event of a run with a webhook needs one, and each costs 0.2 ms. */
const lately = new Map<string, RunPlan>();
const LATELY = 128;
/** Longer configs are not cached. */
const LATELY_LENGTH = 16_384;

/**
 * The plan of a config as stored by the registry. Shared between callers: never change it. @throws
 * {MosaicError} `internal` if the text is no stored config (the registry was changed from outside)
 */
export function planOf(configJson: string): RunPlan {
  const known = lately.get(configJson);
  if (known !== undefined) return known;
  const plan = makePlan(configJson);
  if (configJson.length <= LATELY_LENGTH) {
    if (lately.size >= LATELY) lately.delete(lately.keys().next().value!);
    lately.set(configJson, plan);
  }
  return plan;
}

/** The plan; undefined if the stored config is damaged: displaying a run must not fail. */
export function planIfReadable(configJson: string): RunPlan | undefined {
  try {
    return planOf(configJson);
  } catch {
    return undefined;
  }
}

/**
 * Expected steps of a run, read without checking the rest: a list reads thousands of configs, and
 * one invalid config must not hide all other runs. 0: unknown.
 */
export function expectedStepsOf(configJson: string): number {
  const config: ConfigOfSteps | null = JSON.parse(rawJson(configJson));
  return positiveInteger(
    config?.schedule?.max_steps ?? config?.metadata?.worker?.config?.total_timesteps,
  );
}

interface ConfigOfSteps {
  schedule?: { max_steps?: unknown } | null;
  metadata?: { worker?: { config?: { total_timesteps?: unknown } | null } | null } | null;
}

function makePlan(configJson: string): RunPlan {
  const damaged = (why: string) =>
    new MosaicError("internal", `the stored config is damaged: ${why}`);
  let stored: unknown;
  try {
    stored = toPlain(readJson(configJson));
  } catch (error) {
    throw damaged(messageOf(error));
  }
  const parsed = flatConfig().safeParse(stored);
  if (!parsed.success) {
    const first = parsed.error.issues[0]!;
    throw damaged(`${pathText(first.path)} ${first.message}`);
  }
  const config = parsed.data;
  const { resources, artifacts, schedule = {}, metadata = {} } = config;
  const { worker, restart = {}, telemetry = {} } = metadata;
  const inner = worker?.config ?? {};
  return {
    entryPoint: config.entry_point,
    arguments: config.arguments ?? [],
    environment: config.environment,
    leftOut: leftOutOf(metadata["submission"]),
    resources: {
      cpus: resources.cpus ?? null,
      memoryMb: resources.memory_mb ?? null,
      gpus: {
        requested: resources.gpus.requested,
        isShared: resources.gpus.share !== undefined || resources.gpus.memory_mb !== undefined,
      },
    },
    artifacts: {
      persistLogs: artifacts.persist_logs ?? true,
      keepJournal: metadata.artifacts?.keep_journal ?? false,
      dropCheckpoints: metadata.artifacts?.drop_checkpoints_at_end ?? false,
      keepVideos: artifacts.keep_videos ?? null,
    },
    resumeFrom: metadata.resume_from ?? null,
    schedule: {
      maxDurationSeconds: schedule.max_duration_seconds ?? null,
      maxSteps: schedule.max_steps ?? null,
      stallTimeoutSeconds: schedule.stall_timeout_seconds ?? null,
    },
    worker: {
      module: worker?.module ?? "",
      script: worker?.script ?? "",
      arguments: worker?.arguments ?? [],
      hasConfig: Object.keys(inner).length > 0,
      useGrpc: worker?.use_grpc ?? true,
      grpcTarget: worker?.grpc_target ?? "",
      workerId: worker?.worker_id ?? "",
      python: worker?.python ?? "",
      supportsPause: worker?.supports_pause ?? false,
      user: String(worker?.user ?? ""),
      external: worker?.external ?? false,
      uploadFiles: worker?.upload_files ?? false,
      cwd: worker?.cwd ?? "",
    },
    restart: {
      backoffSeconds: restart.backoff_s ?? PLAN_DEFAULTS.restartBackoffSeconds,
      on: restart.on ?? RESTART_CAUSES,
    },
    backpressure: backpressurePlan(metadata.backpressure),
    alerts: alertRules(
      withShareRule(
        metadata.alerts ?? [],
        (resources.gpus.share ?? resources.gpus.memory_mb) !== undefined,
      ),
    ),
    preflight: {
      files: (metadata.preflight?.files ?? []).map((file) =>
        typeof file === "string"
          ? { path: file, sha256: null }
          : { path: file.path, sha256: file.sha256?.toLowerCase() ?? null }
      ),
      modules: metadata.preflight?.modules ?? [],
      minFreeDiskMb: metadata.preflight?.min_free_disk_mb ?? 0,
      gpu: metadata.preflight?.gpu ?? false,
    },
    telemetry: {
      strict: telemetry.strict ?? false,
      schemaId: telemetry.schema_id ?? (inner.schema_id || null),
      schema: telemetry.schema ?? inner.schema_definition ?? null,
      textOff: textOff(telemetry.text),
      // An import prints what its files hold; what other programs write meanwhile below the same
      // directory is not its.
      observe: config.entry_point === IMPORT_WORKER ? null : observePlan(metadata.observe),
    },
    heartbeatTimeoutSeconds: metadata.heartbeat_timeout_seconds ?? null,
    handshakeTimeoutSeconds: metadata.handshake_timeout_seconds ?? null,
    sandbox: sandboxPlan(metadata.sandbox),
    launcher: metadata.launcher ?? "local",
    queue: queuePlan(metadata.queue),
    slurm: {
      fields: metadata.slurm ?? {},
      lingerSeconds: metadata.slurm?.linger_seconds ?? PLAN_DEFAULTS.lingerSeconds,
      nodes: metadata.slurm?.nodes ?? 1,
      tasksPerNode: metadata.slurm?.tasks_per_node === "gpu"
        ? Math.max(1, resources.gpus.requested)
        : metadata.slurm?.tasks_per_node ?? 1,
      leaseSeconds: metadata.slurm?.lease_seconds ?? null,
    },
    recordsCode: metadata.code !== "off",
    umask: metadata.umask ?? PLAN_DEFAULTS.umask,
    uses: (metadata.uses ?? []).filter((use) => typeof use === "object"),
    webhook: webhookPlan(metadata.webhook),
    fastlane: fastlanePlan(metadata.ui, inner.extras),
  };
}

/**
 * As `mosaic run` writes them (src/cli/verb/command_config.ts); what other programs write there is
 * theirs.
 */
function leftOutOf(submission: unknown): string[] {
  const names = isPlainObject(submission) ? submission["left_out"] : undefined;
  return Array.isArray(names)
    ? names.filter((name): name is string => typeof name === "string").slice(0, 200)
    : [];
}

/** A century: much later times have no text. */
const LONGEST_DELAY_S = 100 * 366 * 86_400;

/**
 * Seconds to wait before `attempt` (2 is the first restart): doubled for each, up to 10 minutes.
 */
export function restartDelaySeconds(plan: RunPlan, attempt: number): number {
  const given = Math.min(LONGEST_DELAY_S, plan.restart.backoffSeconds);
  const doubled = given * 2 ** Math.min(100, Math.max(0, attempt - 2));
  return Math.min(doubled, Math.max(given, PLAN_DEFAULTS.restartBackoffMaxSeconds));
}

type Metadata = NonNullable<FlatConfig["metadata"]>;

function backpressurePlan(given: Metadata["backpressure"]): RunPlan["backpressure"] {
  const { policy, min_rate_hz, starved_seconds } = typeof given === "object"
    ? given
    : { policy: given };
  return {
    policy: policy ?? "journal",
    minRateHz: min_rate_hz ?? PLAN_DEFAULTS.minRateHz,
    starvedSeconds: starved_seconds ?? PLAN_DEFAULTS.starvedSeconds,
  };
}

function textOff(text: boolean | readonly TextDialect[] = true): readonly TextDialect[] {
  if (typeof text === "boolean") return text ? [] : TEXT_DIALECTS;
  return TEXT_DIALECTS.filter((dialect) => !text.includes(dialect));
}

function observePlan(observe: boolean | readonly string[] = true): readonly string[] | null {
  if (typeof observe === "boolean") return observe ? [] : null;
  return observe;
}

function sandboxPlan(given: Metadata["sandbox"]): RunPlan["sandbox"] {
  const { kind, network, writable } = typeof given === "object" ? given : { kind: given };
  return { kind: kind ?? "none", network: network ?? false, writable: writable ?? [] };
}

function webhookPlan(given: Metadata["webhook"]): RunPlan["webhook"] {
  if (given === undefined) return null;
  const { url, events, secret_file } = typeof given === "object" ? given : { url: given };
  return { url, events: events ?? null, secretFile: secret_file ?? null };
}

/** `fastlane_only` and `fastlane_slot` of metadata.ui, else of the worker's extras. */
function fastlanePlan(...places: unknown[]): RunPlan["fastlane"] {
  const objects = places.map((place) =>
    (typeof place === "object" && place !== null ? place : {}) as Record<string, unknown>
  );
  const only = objects.map((place) => place.fastlane_only).find((value) => value !== undefined);
  if (only === undefined) return null;
  return {
    only: truthy(only),
    slot: positiveInteger(objects.map((p) => p.fastlane_slot).find((v) => v !== undefined)),
  };
}

function positiveInteger(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

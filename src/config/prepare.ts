/**
 * What is stored for a run: its config with run id and paths, and the fields that the registry and
 * the dispatcher need. Only decides; writes nothing.
 */
import { MosaicError } from "../base/errors.ts";
import type { BaseDir, Layout } from "../base/layout.ts";
import type { ReadConfig } from "./config.ts";
import { type JsonObject, type JsonValue, readJson, toPlain, writeJson } from "./lossless_json.ts";
import type { SlurmFields } from "./schema.ts";
import { isUlid, newUlid } from "./ulid.ts";
import { type After, afterText } from "./queue_fields.ts";

/** An artifact that a config names, and what was found at its submission. */
export interface UsedArtifact {
  /** As the config names it. */
  artifact: string;
  run: string;
  path: string;
  /** "": not known. */
  sha256: string;
  /** Absolute, on the daemon's host. */
  file: string;
}

export interface PreparedRun {
  runId: string;
  name: string;
  /** The canonical form after injection: keys sorted, compact, ASCII. */
  configJson: string;
  baseDir: BaseDir;
  /** The run's own directory, absolute. */
  directory: string;
  /** The worker's config file, if its config is not empty. */
  workerConfigFile?: { path: string; text: string };
  /** "" if the config names no worker. */
  workerId: string;
  agentId: string;
  priority: number;
  tags: string[];
  gpusRequested: number;
  gpusMandatory: boolean;
  /** What it declares of each card, in one of two ways; neither: whole cards. */
  gpuShare?: number;
  gpuMemoryMb?: number;
  maxAttempts: number;
}

/**
 * The run's id: from the request, else from the config, else a new one. @throws {MosaicError}
 * `invalid_argument` if the request's id is no ULID or contradicts the config's
 */
export function resolveRunId(read: ReadConfig, requested = ""): string {
  if (requested === "") return read.requestedRunId ?? newUlid();
  if (!isUlid(requested)) {
    throw new MosaicError("invalid_argument", `run_id ${JSON.stringify(requested)} is not a ULID`, {
      hint: "Leave run_id empty and mosaic chooses one.",
    });
  }
  if (read.requestedRunId !== undefined && read.requestedRunId !== requested) {
    throw new MosaicError(
      "invalid_argument",
      `run_id mismatch with configuration digest: the request says ${requested}, the config ${read.requestedRunId}`,
      { hint: "Leave the request's run_id empty, or remove metadata.worker.config.run_id." },
    );
  }
  return requested;
}

/**
 * Injects id and paths into a config, for the run `runId` below `layout`'s state directory. @param
 * slurm defaults of metadata.slurm: the run keeps those of its submission, whatever daemon starts
 * it
 * @param submitter who submits it, "" if unknown; whatever the config itself says
 * @param uses what was found of the artifacts that the config names
 * @param after the config's predecessors by their ids: a name may belong to another run later
 */
export function prepareRun(
  read: ReadConfig,
  { runId, layout, slurm = {}, after = [], uses = [], submitter = "" }: {
    runId: string;
    layout: Layout;
    slurm?: SlurmFields;
    after?: readonly After[];
    uses?: readonly UsedArtifact[];
    submitter?: string;
  },
): PreparedRun {
  const { metadata, resources } = read.config;
  const worker = metadata?.worker ?? undefined;
  const baseDir = baseDirOf(read.config);
  const directory = layout.runDir(baseDir, runId);
  const workerId = worker?.worker_id || worker?.config?.worker_id || "";
  const form: JsonObject = new Map(read.canonical);
  const workerConfig = injectWorker(form, runId, workerId);
  if (submitter !== "" || metadata?.submitted_by != null) injectSubmitter(form, submitter);
  if (after.length > 0) injectAfter(form, after);
  if (uses.length > 0) injectUses(form, uses);
  if (metadata?.launcher === "slurm") injectSlurm(form, slurm, worker?.supports_pause === true);
  if (baseDir !== "custom_scripts") {
    injectPaths(form, { runId, baseDir, directory, stateDir: layout.stateDir });
  }
  return {
    runId,
    name: read.config.run_name,
    configJson: writeJson(form, { sortKeys: true, ascii: true }),
    baseDir,
    directory,
    ...(workerConfig === undefined ? {} : {
      workerConfigFile: {
        path: layout.workerConfigFile(runId, workerId),
        text: writeJson(workerConfig, { indent: true, ascii: true, nonFinite: "bare" }) + "\n",
      },
    }),
    workerId,
    agentId: worker?.agent_id || worker?.config?.agent_id || `agent_${runId.slice(0, 8)}`,
    priority: metadata?.priority ?? 0,
    tags: [...new Set(metadata?.tags ?? [])],
    gpusRequested: resources.gpus.requested,
    gpusMandatory: resources.gpus.mandatory ?? false,
    ...(resources.gpus.share === undefined ? {} : { gpuShare: resources.gpus.share }),
    ...(resources.gpus.memory_mb === undefined ? {} : { gpuMemoryMb: resources.gpus.memory_mb }),
    maxAttempts: metadata?.restart?.max_attempts ?? 1,
  };
}

/** Custom scripts, evaluations of a policy, and everything else. */
export function baseDirOf(config: ReadConfig["config"]): BaseDir {
  const worker = config.metadata?.worker;
  if (worker?.script && !worker.module) return "custom_scripts";
  const extras = worker?.config?.extras;
  return extras?.mode === "policy_eval" || truthy(worker?.config?.test_mode) ? "evals" : "runs";
}

/** Python's truth value. */
export function truthy(value: unknown): boolean {
  if (value === null || typeof value !== "object") return Boolean(value);
  return Object.keys(value).length > 0;
}

function child(parent: JsonObject, key: string): JsonObject | undefined {
  const value = parent.get(key);
  return value instanceof Map ? value : undefined;
}

/**
 * Puts the ids into `metadata.worker`; returns the content of the worker's own config file. Parents
 * are copied, never changed.
 */
function injectWorker(form: JsonObject, runId: string, workerId: string): JsonObject | undefined {
  const metadata: JsonObject = new Map(child(form, "metadata"));
  const given = child(metadata, "worker");
  if (given === undefined) return undefined;
  const worker: JsonObject = new Map(given);
  form.set("metadata", metadata);
  metadata.set("worker", worker);
  if (workerId !== "") worker.set("worker_id", workerId);
  const config = child(worker, "config");
  if (config === undefined || config.size === 0) return undefined;
  const injected: JsonObject = new Map(config).set("run_id", runId);
  worker.set("config", injected);
  const file: JsonObject = new Map(injected);
  if (workerId !== "" && !file.get("worker_id")) file.set("worker_id", workerId);
  return file;
}

/**
 * Adds the daemon's defaults to a stored config of an earlier version, which looked them up at each
 * placement. `nodes` and others that it did not look up are left out: the run's job may have begun
 * without them.
 */
export function withSlurmDefaults(configJson: string, defaults: SlurmFields): string {
  const {
    nodes: _nodes,
    tasks_per_node: _tasks,
    lease_seconds: _lease,
    linger_seconds: _linger,
    ...lookedUp
  } = defaults;
  const form = readJson(configJson);
  if (!(form instanceof Map)) return configJson;
  const worker = child(child(form, "metadata") ?? new Map(), "worker");
  injectSlurm(form, lookedUp, worker?.get("supports_pause") === true);
  return writeJson(form, { sortKeys: true, ascii: true });
}

/**
 * @param warned the worker reads the message before the time limit; otherwise a default of it must
 * not refuse the config
 */
function injectSlurm(
  form: JsonObject,
  { warn_seconds, ...defaults }: SlurmFields,
  warned: boolean,
): void {
  const metadata: JsonObject = new Map(child(form, "metadata"));
  const given = child(metadata, "slurm") ?? new Map<string, JsonValue>();
  const fields = warned && warn_seconds !== undefined ? { ...defaults, warn_seconds } : defaults;
  metadata.set("slurm", new Map([...readJson(JSON.stringify(fields)) as JsonObject, ...given]));
  form.set("metadata", metadata);
}

function injectSubmitter(form: JsonObject, submitter: string): void {
  const metadata: JsonObject = new Map(child(form, "metadata"));
  if (submitter === "") metadata.delete("submitted_by");
  else metadata.set("submitted_by", submitter);
  form.set("metadata", metadata);
}

function injectAfter(form: JsonObject, after: readonly After[]): void {
  const metadata: JsonObject = new Map(child(form, "metadata"));
  const queue: JsonObject = new Map(child(metadata, "queue"));
  metadata.set("queue", queue.set("after", after.map(afterText)));
  form.set("metadata", metadata);
}

function injectUses(form: JsonObject, uses: readonly UsedArtifact[]): void {
  const metadata: JsonObject = new Map(child(form, "metadata"));
  metadata.set("uses", readJson(JSON.stringify(uses)));
  form.set("metadata", metadata);
}

interface Place {
  runId: string;
  baseDir: BaseDir;
  directory: string;
  stateDir: string;
}

/**
 * Writes the paths of the run's artifacts into the config. A custom script sets them itself and is
 * not changed.
 */
function injectPaths(form: JsonObject, place: Place): void {
  const environment = new Map(child(form, "environment"));
  const values: [string, string][] = [
    ["CLEANRL_RUN_ID", place.runId],
    ["XUANCE_RUN_ID", place.runId],
    ["MOSAIC_RUN_ID", place.runId],
    ["XUANCE_TENSORBOARD_DIR", `${place.directory}/tensorboard`],
    ["MOSAIC_RUN_DIR", place.directory],
    ["MOSAIC_CHECKPOINT_DIR", `${place.directory}/checkpoints`],
    ["MOSAIC_CUSTOM_SCRIPTS_DIR", `${place.directory}/config`],
  ];
  for (const [name, value] of values) if (environment.has(name)) environment.set(name, value);
  form.set("environment", environment);

  const metadata: JsonObject = new Map(child(form, "metadata"));
  const config = child(child(metadata, "worker") ?? new Map(), "config") ??
    new Map<string, JsonValue>();
  const extras = child(config, "extras") ?? new Map<string, JsonValue>();
  const artifacts: JsonObject = new Map(child(metadata, "artifacts"));
  const tensorboard: JsonObject = new Map(child(artifacts, "tensorboard"));
  const relative = extras.get("tensorboard_dir");
  const path = typeof relative === "string" && relative !== "" ? relative : "tensorboard";
  tensorboard.set("relative_path", path);
  if (!tensorboard.has("enabled")) tensorboard.set("enabled", true);
  tensorboard.set("log_dir", path.startsWith("/") ? path : `${place.directory}/${path}`);
  const wandb: JsonObject = new Map(child(artifacts, "wandb"));
  if (!wandb.has("enabled")) {
    wandb.set("enabled", truthy(toPlain(extras.get("track_wandb") ?? false)));
  }
  wandb.set("manifest_file", `${place.directory}/wandb.json`);
  // The original's readers resolve it relative to the parent of the state directory ("var").
  const stateName = place.stateDir.slice(place.stateDir.lastIndexOf("/") + 1);
  wandb.set("relative_path", `${stateName}/trainer/${place.baseDir}/${place.runId}/wandb.json`);
  if (!wandb.has("run_path")) wandb.set("run_path", "");
  artifacts.set("tensorboard", tensorboard);
  artifacts.set("wandb", wandb);
  metadata.set("artifacts", artifacts);
  form.set("metadata", metadata);
}

/**
 * Takes a submitted config: checks everything first, then writes; a rejected submission leaves
 * nothing behind.
 */
import { CONFIG_BYTES, isLonger } from "../../base/field_limits.ts";
import { boundReached } from "../../base/load_limits.ts";
import { type ReadConfig, readConfig } from "../../config/config.ts";
import { parametersOf } from "../../config/parameters.ts";
import {
  type PreparedRun,
  prepareRun,
  resolveRunId,
  type UsedArtifact,
} from "../../config/prepare.ts";
import { planOf, type RunPlan } from "../../config/plan.ts";
import type { SlurmFields } from "../../config/schema.ts";
import { type After, readAfter, SWEEP } from "../../config/queue_fields.ts";
import { newUlid } from "../../config/ulid.ts";
import { MosaicError } from "../../base/errors.ts";
import type { FoundArtifact } from "../lineage/lineage.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import type { Layout } from "../../base/layout.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { explainShortage } from "../../os/processes/shortage.ts";
import { removeIfThere, writeFileAtomic } from "../../os/files/files.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { TrialOf } from "../../registry/sweeps/sweep_rows.ts";
import { requireReach } from "../../observability/webhooks/reach.ts";

import { wishesOf } from "./predecessors.ts";

/**
 * Runs before a new one in which a cycle is searched; one beyond them would wait, and say for what.
 */
const MOST_SEARCHED = 1000;

export interface SubmissionContext {
  registry: Registry;
  layout: Layout;
  /** The host's GPU slots, free or not. */
  gpus: Pick<GpuPool, "mostRequested" | "mostMemoryMb" | "problem">;
  /** @throws MosaicError where a run of this plan can never be started */
  admit: (plan: RunPlan, owner: string) => void;
  /** Files survive a power failure as soon as the run does. */
  durable: boolean;
  /** Defaults of metadata.slurm. */
  slurm: SlurmFields;
  /** Number of waiting runs, and its limit. */
  queueLength: number;
  /** The queue position for a new run of this priority. */
  placeFor: (priority: number) => number;
  maxQueue: number;
  /** An artifact by its name. @throws MosaicError `not_found`, … */
  findArtifact: (artifact: string) => FoundArtifact;
  /** A token's name, or uid:N; "": not known. */
  submitter: string;
  /** GPU slots of one owner at a time. */
  maxGpusPerUser: number;
}

export interface Submission {
  row: RunRow;
  /** False if a live run has the same config, whatever its id. */
  fresh: boolean;
  /** Number of the config's parameters beyond the bound. */
  leftOutParameters?: number;
}

/**
 * - the digest of a run that lives: that run
 * - a run id that is taken by another config: `already_exists`; by an ended run of the same config:
 *   a new id
 *
 * @param trial the run is this trial of a sweep
 * @throws MosaicError `invalid_argument` with every violation, `already_exists`,
 * `resource_exhausted`, `unavailable`, `permission_denied` for a webhook out of the daemon's reach
 */
export function submit(
  configJson: string,
  requestedId: string,
  context: SubmissionContext,
  trial?: TrialOf,
): Submission {
  const { registry, layout } = context;
  const read = readBounded(configJson);
  const alive = registry.byDigest(read.digest).find((row) => !isEnded(row.state));
  if (alive !== undefined) return { row: alive, fresh: false };
  const runId = freeRunId(
    resolveRunId(read, requestedId),
    requestedId !== "",
    read.digest,
    registry,
  );
  const prepared = admitted(read, runId, context, trial);
  requireRoom(context);
  const { configJson: stored, workerConfigFile, directory: _, ...run } = prepared;
  const uses = planOf(stored).uses.map(({ artifact: given, run: sourceRun, path, sha256 }) => ({
    ...{ given, sourceRun, path, sha256 },
    sourceName: registry.get(sourceRun)?.name ?? "",
  }));
  const written = [{ path: layout.configFile(runId), text: stored }];
  if (workerConfigFile !== undefined) written.push(workerConfigFile);
  try {
    const { durable } = context;
    for (const { path, text } of written) writeFileAtomic(path, text, { mode: 0o600, durable });
    const { parameters, leftOut } = parametersOf(stored);
    const entered = { ...run, digest: read.digest, configJson: stored, owner: context.submitter };
    const row = registry.insert(entered, context.placeFor(run.priority), parameters, trial, uses);
    return { row, fresh: true, leftOutParameters: leftOut };
  } catch (error) {
    for (const { path } of written) removeQuietly(path);
    throw explainShortage(error, `write the run's config below ${layout.configs}`);
  }
}

/** @throws MosaicError `resource_exhausted` where the queue takes no further run */
export function requireRoom(
  { queueLength, maxQueue }: Pick<SubmissionContext, "queueLength" | "maxQueue">,
): void {
  if (queueLength < maxQueue) return;
  const what = `the queue is full: ${queueLength} runs wait already`;
  throw boundReached("maxQueue", maxQueue, what, "Submit again when some have started");
}

type Admission = Pick<
  SubmissionContext,
  | "registry"
  | "layout"
  | "gpus"
  | "admit"
  | "slurm"
  | "submitter"
  | "maxGpusPerUser"
  | "findArtifact"
>;

/** Checks a config without entering it. @throws MosaicError where it can never become a run */
export function requireAdmissible(configJson: string, context: Admission): void {
  admitted(readBounded(configJson), newUlid(), context);
}

function readBounded(configJson: string): ReadConfig {
  if (isLonger(configJson, CONFIG_BYTES)) {
    throw new MosaicError("invalid_argument", `the config has more than ${CONFIG_BYTES >> 20} MiB`);
  }
  return readConfig(configJson);
}

function admitted(
  read: ReadConfig,
  runId: string,
  context: Admission,
  trial?: TrialOf,
): PreparedRun {
  const { registry, layout, gpus } = context;
  const after = predecessors(read.config.metadata?.queue?.after ?? [], runId, registry, trial);
  const uses = usedArtifacts(read.config.metadata?.uses ?? [], context.findArtifact);
  const prepared = prepareRun(read, {
    runId,
    layout,
    slurm: context.slurm,
    after,
    uses,
    submitter: context.submitter,
  });
  const plan = planOf(prepared.configJson);
  requireTime(plan);
  requireOwnHost(plan);
  context.admit(plan, context.submitter);
  if (plan.webhook !== null) requireReach(plan.webhook);
  if (
    plan.launcher === "local" && prepared.gpusMandatory &&
    prepared.gpusRequested > gpus.mostRequested
  ) {
    throw new MosaicError(
      "resource_exhausted",
      `Insufficient GPU slots available: resources.gpus.requested is ${prepared.gpusRequested}, and this host has ${gpus.mostRequested}` +
        (gpus.problem === "" ? "" : ` (${gpus.problem})`),
      {
        hint:
          "Request fewer, set resources.gpus.mandatory to false, or start the daemon with --gpus.",
      },
    );
  }
  if (
    plan.launcher === "local" && prepared.gpusMandatory &&
    (prepared.gpuMemoryMb ?? 0) > gpus.mostMemoryMb
  ) {
    throw new MosaicError(
      "resource_exhausted",
      `resources.gpus.memory_mb is ${prepared.gpuMemoryMb}, and the largest GPU of this host has ${gpus.mostMemoryMb} MiB`,
      { hint: "Declare less, or leave it out to get whole cards." },
    );
  }
  if (
    plan.launcher !== "local" && plan.resources.gpus.isShared &&
    plan.slurm.fields.gres === undefined
  ) {
    throw new MosaicError(
      "invalid_argument",
      "resources.gpus has a part of a card, and Slurm gives parts as shards, whose size the cluster sets",
      {
        hint:
          "Ask for shards: metadata.slurm.gres, such as shard:2 (mosaic run --slurm gres=shard:2), with whole cards in resources.gpus.",
      },
    );
  }
  if (
    plan.launcher === "local" && prepared.gpusMandatory &&
    prepared.gpusRequested > context.maxGpusPerUser
  ) {
    throw new MosaicError(
      "resource_exhausted",
      `resources.gpus.requested is ${prepared.gpusRequested}, and one user may have ${context.maxGpusPerUser} GPUs at a time`,
      { hint: "Request fewer, or start the daemon with a higher --max-gpus-per-user." },
    );
  }
  return prepared;
}

/**
 * @param given a name, or what was found when the config was submitted before @throws MosaicError
 * as `find`, with the field
 */
function usedArtifacts(
  given: readonly (string | UsedArtifact)[],
  find: SubmissionContext["findArtifact"],
): UsedArtifact[] {
  return given.map((use, at) => {
    const [artifact, named] = typeof use === "string"
      ? [use, use]
      : [use.artifact, `${use.run}:${use.path}`];
    try {
      const { runId: run, path, sha256, file } = find(named);
      return { artifact, run, path, sha256, file };
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
      const { code, message, hint } = error;
      throw new MosaicError(code, `metadata.uses[${at}]: ${message}`, {
        ...(hint === undefined ? {} : { hint }),
      });
    }
  });
}

/**
 * @throws MosaicError `invalid_argument` for a run that this daemon does not stop and start by
 * itself
 */
function requireOwnHost({ queue, launcher, worker }: RunPlan): void {
  if (!queue.preemptible || (launcher === "local" && !worker.external)) return;
  const where = worker.external ? "whose proxy somebody else starts" : `that ${launcher} places`;
  throw new MosaicError(
    "invalid_argument",
    `metadata.queue.preemptible is true, and this is a run ${where}`,
    {
      hint:
        "Only runs on the daemon's own host give way to others; an engine has its own preemption.",
    },
  );
}

/** @throws MosaicError `invalid_argument` for a run that could never start */
function requireTime({ queue }: RunPlan): void {
  const now = Date.now();
  const [beginAt, deadlineAt] = [queue.beginAt(now), queue.deadlineAt(now)];
  if (deadlineAt === null) return;
  const deadline = `metadata.queue.deadline is ${new Date(deadlineAt).toISOString()}`;
  if (deadlineAt <= now) throw new MosaicError("invalid_argument", `${deadline}, which has passed`);
  if (beginAt !== null && beginAt >= deadlineAt) {
    throw new MosaicError(
      "invalid_argument",
      `${deadline}, and the run may not begin before ${
        new Date(beginAt).toISOString()
      } (metadata.queue.begin)`,
    );
  }
}

/**
 * One of `metadata.queue.after`, by its id. @throws MosaicError `not_found`, `invalid_argument`
 * (ambiguous)
 */
export function predecessor(text: string, at: number, registry: Registry): After {
  const { run, when } = readAfter(text);
  try {
    if (!run.startsWith(SWEEP)) return { run: registry.resolve(run).runId, when };
    return { run: `${SWEEP}${registry.sweeps.resolve(run.slice(SWEEP.length)).sweepId}`, when };
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    const { code, message, hint } = error;
    throw new MosaicError(code, `metadata.queue.after[${at}]: ${message}`, {
      ...(hint === undefined ? {} : { hint }),
    });
  }
}

/**
 * The runs and sweeps that the config names, by their ids. Each was submitted before, so no cycle
 * can come about, except through the id of a deleted run that is given again, and through a trial
 * that is made after a run which waits for its sweep.
 * @param trial the run is this trial of a sweep @throws MosaicError `not_found`, `invalid_argument`
 * (ambiguous), `failed_precondition` (a cycle)
 */
function predecessors(
  names: readonly string[],
  runId: string,
  registry: Registry,
  trial?: TrialOf,
): After[] {
  const after = names.map((text, at) => predecessor(text, at, registry));
  const seen = new Set<string>();
  for (const due = after.map(({ run }) => run); due.length > 0;) {
    const next = due.pop()!;
    if (next === runId) {
      throw new MosaicError(
        "failed_precondition",
        `metadata.queue.after: run ${runId} would wait for itself`,
        {
          hint:
            "Leave the run id out: a deleted run had it, and runs that wait for that one are before this run.",
        },
      );
    }
    if (trial !== undefined && next === `${SWEEP}${trial.sweepId}`) {
      throw new MosaicError(
        "failed_precondition",
        "metadata.queue.after: the trial would wait for its own sweep",
      );
    }
    if (seen.has(next) || seen.size >= MOST_SEARCHED) continue;
    seen.add(next);
    const row = next.startsWith(SWEEP) ? undefined : registry.get(next);
    if (row !== undefined) due.push(...wishesOf(row)?.after.map(({ run }) => run) ?? []);
  }
  return after;
}

/** `mosaic doctor` finds leftover files; the error being handled says more. */
function removeQuietly(path: string): void {
  try {
    removeIfThere(path);
  } catch {
    // For example a read-only file system.
  }
}

function freeRunId(wanted: string, insisted: boolean, digest: string, registry: Registry): string {
  const taken = registry.known(wanted);
  if (taken === undefined) return wanted;
  if (taken.digest === digest && !insisted) return newUlid();
  // It says what to do about a run in the trash.
  if (taken.deletedAt !== null) return wanted;
  throw new MosaicError(
    "already_exists",
    taken.digest === digest
      ? `run ${wanted} has ended with this very config`
      : `the run id ${wanted} is taken by a run with another config`,
    {
      hint: `Leave the run id out to get a new one${
        taken.digest === digest ? `, or: mosaic retry ${wanted}` : ""
      }.`,
    },
  );
}

/**
 * Starts an attempt on its host: preflight, files, transition, proxy, in that order. If the daemon
 * dies before the transition, the run is INIT (holding its GPUs) and is simply started again. If it
 * dies after the transition but before the proxy starts, there is no trace of a proxy or worker, so
 * the attempt is requeued. Once the proxy runs, its lock and files show it
 * (launch/local/recovery_decision.ts). So an attempt never has two workers.
 */
import { planOf, type RunPlan } from "../../config/plan.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { type Layout, RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { freeSpaceOf, freeSpaceText } from "../../os/host/free_space.ts";
import { makeDirectory, offerDirectory } from "../../os/files/untrusted_changes.ts";
import { type FileDescriptors, requireDescriptors } from "../../os/processes/descriptors.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import { explain } from "../../registry/failure/explain.ts";
import type { Registry } from "../../registry/registry.ts";
import type { ArtifactRow, RunRow } from "../../registry/row_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Host, Launch } from "../attempt/state/host.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import { checkpointTime } from "../attempt/records/worker_events.ts";
import { newSessionToken } from "./engine/session_token.ts";

/** After a shortage (descriptors, processes, memory) the attempt waits this long. */
const SHORTAGE_WAIT_MS = 5000;

export interface StarterOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  /** The host that a run is started on. */
  hostOf: (plan: RunPlan) => Host;
  /** Remaining descriptors are reserved for running runs. */
  descriptors: FileDescriptors;
}

export class Starter {
  readonly #options: StarterOptions;

  constructor(options: StarterOptions) {
    this.#options = options;
  }

  /**
   * Brings an INIT run to HANDSHAKE, or to FAULTED with the reason. A run that is no longer INIT is
   * left alone.
   *
   * @throws on a temporary shortage (free space, descriptors, …): the run waits.
   */
  async start(row: RunRow, supervisor: Supervisor): Promise<void> {
    const { registry, log, layout, hostOf } = this.#options;
    let reason: string;
    try {
      const plan = planOf(row.configJson);
      const files = new RunFiles(layout.runDir(row.baseDir, row.runId), row.workerId);
      requireDescriptors(this.#options.descriptors, "start a run");
      requireFreeSpace(layout.baseDir(row.baseDir));
      for (const directory of [files.directory, ...files.own]) makeDirectory(directory);
      for (const directory of files.outputs) offerDirectory(directory);
      const launch = hostOf(plan).launch(row, plan, files);
      const failures = await launch.check();
      if (!this.#stillWaits(row)) return;
      if (failures.length === 0) return this.#spawn(row, plan, launch, supervisor);
      reason = `preflight: ${failures.join("; ")}`;
    } catch (error) {
      if (!this.#stillWaits(row)) return;
      if (isShortage(error)) throw error;
      reason = `dispatch_error: ${messageOf(error)}`;
    }
    const hint = explain({ exit: undefined, faultRequested: reason, runFailed: undefined })?.hint ??
      null;
    log.warn({ run_id: row.runId, attempt: row.attempt, reason }, "run could not be started");
    registry.apply(row.runId, { type: "failed", reason }, { hint }, () => ({
      kind: "failed",
      data: { reason, hint },
    }));
  }

  /**
   * What keeps a run from starting for now, as far as that is known without trying; undefined:
   * nothing.
   */
  troubleOf(row: RunRow): string | undefined {
    try {
      requireDescriptors(this.#options.descriptors, "start a run");
      requireFreeSpace(this.#options.layout.baseDir(row.baseDir));
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** An engine has started the attempt of an INIT run, or has tried to. */
  begin(row: RunRow, supervisor: Supervisor): void {
    const { spawned, stepsBefore } = this.#enterSpawned(row, row.sessionToken ?? newSessionToken());
    supervisor.started(spawned, planOf(row.configJson), undefined, stepsBefore);
  }

  #stillWaits(row: RunRow): boolean {
    const now = this.#options.registry.get(row.runId);
    const same = now?.attempt === row.attempt && now.resumeFrom === row.resumeFrom;
    return same && now.state === "INIT" && now.cancelRequestedAt === null;
  }

  /** Synchronous from here on, so that nobody can cancel the run in between. */
  #spawn(row: RunRow, plan: RunPlan, launch: Launch, supervisor: Supervisor): void {
    const { registry, log } = this.#options;
    const sessionToken = row.sessionToken ?? newSessionToken();
    launch.prepare(sessionToken);
    const { spawned, stepsBefore } = this.#enterSpawned(row, sessionToken);
    let process: ProcessRef | undefined;
    try {
      process = launch.start(spawned);
    } catch (error) {
      log.error(
        { run_id: row.runId, error: messageOf(error) },
        "no process could be created; the run waits",
      );
      const notBefore = Date.now() + SHORTAGE_WAIT_MS;
      try {
        registry.apply(row.runId, { type: "requeued", reason: messageOf(error) }, { notBefore });
      } catch (again) {
        // This failed, too: the supervisor finds nothing started and requeues the attempt.
        log.error(
          { run_id: row.runId, error: messageOf(again) },
          "the reason cannot be written either; trying again",
        );
        supervisor.started(spawned, plan, undefined, stepsBefore);
      }
      return;
    }
    supervisor.started(spawned, plan, process, stepsBefore);
    try {
      if (process !== undefined) registry.update(row.runId, { proxy: process });
    } catch (error) {
      // Needed only by a daemon that starts before the proxy has connected; the attempt's lock
      // shows the proxy as well.
      log.warn(
        { run_id: row.runId, error: messageOf(error) },
        "the proxy could not be written to the registry",
      );
    }
    log.info(
      { run_id: row.runId, attempt: row.attempt, proxy: process?.pid, gpus: row.gpuSlots },
      launch.started,
    );
  }

  #enterSpawned(row: RunRow, sessionToken: string): { spawned: RunRow; stepsBefore: number } {
    const { registry, telemetry, log } = this.#options;
    const stepsBefore = telemetry.summary(row.runId).steps;
    try {
      if (row.attempt > 1) {
        telemetry.beginAttempt(
          row.runId,
          row.attempt,
          resumedAt(row, telemetry, registry.artifacts(row.runId)),
        );
      }
    } catch (error) {
      if (isShortage(error)) throw error;
      // Damaged records of older attempts do not prevent another attempt.
      log.warn(
        { run_id: row.runId, error: messageOf(error) },
        "the position where this attempt begins in curves could not be written",
      );
    }
    const spawned = registry.apply(row.runId, { type: "spawned" }, {
      sessionToken,
      proxy: null,
      worker: null,
    }, () => ({
      kind: "started",
      data: {
        digest: row.digest,
        gpus: row.gpuSlots,
        attempt: row.attempt,
        resume_from: row.resumeFrom,
        steps_before: stepsBefore,
      },
    }));
    return { spawned, stepsBefore };
  }
}

/**
 * Unix milliseconds of the checkpoint; null: the attempt has none. A checkpoint that no record
 * names counts as the newest.
 */
function resumedAt(
  { resumeFrom, runId }: RunRow,
  telemetry: TelemetryLog,
  artifacts: readonly ArtifactRow[],
): number | null {
  if (resumeFrom === null) return null;
  const times = artifacts.filter(({ path }) =>
    `${resumeFrom}/`.includes(`/${path}/`) || path === resumeFrom
  )
    .map(({ at }) => at);
  return checkpointTime(telemetry, runId, resumeFrom) ??
    (times.length > 0 ? Math.max(...times) : Number.MAX_SAFE_INTEGER);
}

/**
 * A worker started on a full disk would fail for that reason alone. @throws MosaicError
 * `unavailable`
 */
export function requireFreeSpace(directory: string): void {
  const freeSpace = freeSpaceOf(directory);
  if (!freeSpace.enough) throw new MosaicError("unavailable", freeSpaceText(directory, freeSpace));
}

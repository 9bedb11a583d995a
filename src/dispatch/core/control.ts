/** Requests of people for a run: cancel, pause, resume, throttle, retry, reset. */
import { MosaicError } from "../../base/errors.ts";
import { planIfReadable } from "../../config/plan.ts";
import { IMPORT_WORKER } from "../../config/schema.ts";
import type { Layout } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { queuedEvent } from "../../registry/effects.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Edit } from "./core.ts";
import { editedFields } from "./edits.ts";
import { wishesOf } from "../queue/predecessors.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import type { Placer } from "../launch/placed/placer.ts";

/** Longer than any stop takes. */
const RESET_WAIT_MS = 60_000;

export interface ControlOptions {
  registry: Registry;
  log: Logger;
  layout: Layout;
  supervisor: Supervisor;
  placer: Placer;
  graceSeconds: number;
  /** The position in the queue that a run of this priority gets; 1 is next. */
  placeFor: (priority: number) => number;
  /** A run has begun or ceased to wait. */
  onChanged: (row: RunRow) => void;
  /** @throws MosaicError `failed_precondition` while the run is being deleted */
  refuseDeleted: (runId: string) => void;
}

export class Control {
  readonly #options: ControlOptions;

  constructor(options: ControlOptions) {
    this.#options = options;
  }

  cancel(runId: string, options: { graceSeconds?: number; reason?: string } = {}): RunRow {
    const { registry, log, placer, graceSeconds } = this.#options;
    const row = registry.require(runId);
    if (isEnded(row.state)) return row;
    requireOwnProgram(row, "cancelled");
    const request = {
      cancelRequestedAt: Date.now(),
      cancelReason: options.reason ?? "user_cancel",
    };
    if (row.state === "INIT") {
      log.info({ run_id: runId, reason: request.cancelReason }, "run is cancelled");
      if (!placer.isPlaced(row)) return this.cancelWaiting(row, request);
      // A job of it may exist: the run ends when the engine has none.
      const placed = row.cancelRequestedAt !== null ? row : registry.update(runId, request);
      placer.cancelRequested(placed);
      return registry.require(runId);
    }
    // Durable before the first signal: if the daemon dies now, the next one sees a cancellation,
    // not a lost worker.
    const requested = row.cancelRequestedAt !== null ? row : registry.update(runId, request);
    log.info({ run_id: runId, reason: requested.cancelReason }, "run is cancelled");
    this.supervised(requested).stop(runId, (options.graceSeconds ?? graceSeconds) * 1000);
    return registry.require(runId);
  }

  /** Ends a run that has no processes. */
  cancelWaiting(
    row: RunRow,
    request: Pick<RunRow, "cancelRequestedAt" | "cancelReason"> = row,
  ): RunRow {
    const { cancelRequestedAt, cancelReason } = request;
    const reason = cancelReason ?? "user_cancel";
    const patch = { cancelRequestedAt, cancelReason };
    const ended = this.#options.registry.apply(
      row.runId,
      { type: "cancelled", reason },
      patch,
      () => ({
        kind: "cancelled",
        data: { reason },
      }),
    );
    this.#options.onChanged(ended);
    return ended;
  }

  pause(runId: string): RunRow {
    return this.#desirePause(this.#requirePausable(runId), true);
  }

  canPause(runId: string): boolean {
    try {
      this.#requirePausable(runId);
      return true;
    } catch (error) {
      if (error instanceof MosaicError && error.code === "failed_precondition") return false;
      throw error;
    }
  }

  #requirePausable(runId: string): RunRow {
    const row = this.requireRunning(runId, "paused");
    const hears = this.#options.supervisor.get(runId)?.workerHears(row) === true;
    if (!hears && !planIfReadable(row.configJson)?.worker.supportsPause) {
      requireOneGroup(row, "paused");
    }
    return row;
  }

  resume(runId: string): RunRow {
    return this.#desirePause(this.requireRunning(runId, "resumed"), false);
  }

  #desirePause(row: RunRow, pauseRequested: boolean): RunRow {
    const { registry, supervisor } = this.#options;
    registry.update(row.runId, { pauseRequested });
    const attempt = supervisor.get(row.runId);
    if (attempt !== undefined) attempt.pausedBy = undefined;
    this.supervised(row).sendControl(row.runId);
    return registry.require(row.runId);
  }

  throttle(runId: string, maxRateHz: number): RunRow {
    const { registry, supervisor } = this.#options;
    if (!Number.isSafeInteger(maxRateHz) || maxRateHz < 0) {
      throw new MosaicError(
        "invalid_argument",
        `max_rate_hz is ${maxRateHz}; it must be a whole number, 0 for no limit`,
      );
    }
    const row = registry.require(runId);
    if (isEnded(row.state)) throw ended(row, "throttled");
    requireOwnProgram(row, "throttled");
    if (maxRateHz > 0) requireOneGroup(row, "throttled");
    const updated = registry.update(runId, { maxRateHz });
    supervisor.throttled(runId);
    return updated;
  }

  edit(runId: string, change: Edit): RunRow {
    const { registry } = this.#options;
    const row = registry.require(runId);
    const edited = editedFields(row, change);
    if (Object.keys(edited).length === 0) return row;
    return registry.edit(runId, edited);
  }

  retry(runId: string): RunRow {
    const row = this.#options.registry.require(runId);
    requireOwnProgram(row, "retried");
    requireRepeatable(row);
    if (!isEnded(row.state)) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${row.state}; only a run that has ended is retried`,
        {
          hint:
            `To stop it and start it again: mosaic retry ${runId} --from beginning (or a checkpoint)`,
        },
      );
    }
    return this.#again(row, "by hand", this.#options.supervisor.checkpointOf(row) ?? null);
  }

  async reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    const { registry } = this.#options;
    const row = registry.require(runId);
    requireOwnProgram(row, "reset");
    requireRepeatable(row);
    const resumeFrom = fromCheckpoint === "" ? null : this.#checkpointAt(row, fromCheckpoint);
    if (isEnded(row.state)) return this.#again(row, "reset", resumeFrom);
    if (row.state === "INIT") return registry.update(runId, { resumeFrom });
    if (row.cancelRequestedAt !== null || row.faultRequested !== null) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is being stopped (${row.faultRequested ?? "cancelled"})`,
        { hint: "Reset it when it has ended." },
      );
    }
    registry.update(runId, { resumeFrom });
    this.supervised(row).fault(runId, "reset");
    const enough = AbortSignal.timeout(RESET_WAIT_MS);
    for (let seq = registry.transitionHead(); !enough.aborted; seq = registry.transitionHead()) {
      const now = registry.require(runId);
      if (now.attempt > row.attempt || isEnded(now.state)) break;
      await registry.waitTransitionsBeyond(seq, enough);
    }
    return registry.require(runId);
  }

  /**
   * @param done the operation, for the message @throws MosaicError `failed_precondition` for a run
   * without processes
   */
  requireRunning(runId: string, done: string): RunRow {
    const row = this.#options.registry.require(runId);
    if (isEnded(row.state)) throw ended(row, done);
    requireOwnProgram(row, done);
    if (row.state === "INIT") {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} waits to be started and cannot be ${done}`,
      );
    }
    return row;
  }

  /** The supervisor; it now supervises this run if it did not before. */
  supervised(row: RunRow): Supervisor {
    this.#options.supervisor.adopt(row);
    return this.#options.supervisor;
  }

  /**
   * A listed artifact's path is relative to the run's directory; any other path is for the worker
   * to resolve.
   */
  #checkpointAt(row: RunRow, path: string): string {
    const { registry, layout } = this.#options;
    const listed = registry.artifacts(row.runId).some((a) =>
      a.path === path || a.path.startsWith(`${path}/`)
    );
    return listed && !path.startsWith("/")
      ? `${layout.runDir(row.baseDir, row.runId)}/${path}`
      : path;
  }

  #again(row: RunRow, reason: string, resumeFrom: string | null): RunRow {
    const { registry, log, placeFor, refuseDeleted, onChanged } = this.#options;
    refuseDeleted(row.runId);
    requireWhole(row);
    requireTimeLeft(row);
    const waiting = registry.apply(row.runId, { type: "retry", reason }, {
      resumeFrom,
      notBefore: null,
      maxAttempts: Math.max(row.maxAttempts, row.attempt + 1),
    }, (waiting) => queuedEvent(waiting, placeFor(waiting.priority)));
    log.info(
      { run_id: row.runId, attempt: waiting.attempt, resume_from: resumeFrom },
      "run gets another attempt",
    );
    onChanged(waiting);
    return waiting;
  }
}

/**
 * If one field of a row is damaged, no field is trusted. @throws MosaicError `failed_precondition`
 */
export function requireWhole({ runId, damaged }: RunRow): void {
  if (damaged.length === 0) return;
  throw new MosaicError(
    "failed_precondition",
    `the row of run ${runId} in the registry is damaged (${damaged.join(", ")} cannot be read)`,
    { hint: "Stop the daemon, run mosaic doctor --repair, start it again, and retry the run." },
  );
}

/** Another attempt would end before it starts. @throws MosaicError `failed_precondition` */
function requireTimeLeft(row: RunRow): void {
  const deadlineAt = wishesOf(row)?.deadlineAt ?? null;
  if (deadlineAt === null || deadlineAt > Date.now()) return;
  throw new MosaicError(
    "failed_precondition",
    `the deadline of run ${row.runId} has passed (${new Date(deadlineAt).toISOString()})`,
    { hint: "Submit its config again with another metadata.queue.deadline." },
  );
}

/**
 * @param done the operation, for the message @throws MosaicError `failed_precondition` for a run
 * within a run
 */
function requireOwnProgram({ runId, parent }: RunRow, done: string): void {
  if (parent === null) return;
  throw new MosaicError(
    "failed_precondition",
    `run ${runId} is part of the program of run ${parent} and cannot be ${done} alone`,
    { hint: `Name the run with the program: ${parent}` },
  );
}

/**
 * Another attempt would store the records of an imported run's files twice. @throws MosaicError
 * `failed_precondition`
 */
function requireRepeatable({ runId, configJson }: RunRow): void {
  const plan = planIfReadable(configJson);
  if ((plan?.worker.module || plan?.worker.script || plan?.entryPoint) !== IMPORT_WORKER) return;
  throw new MosaicError(
    "failed_precondition",
    `run ${runId} is imported and has one attempt: its records are stored`,
    {
      hint: `To import it again: mosaic delete ${runId}, then mosaic import with its files.`,
    },
  );
}

/**
 * The proxy cannot signal the ranks of a run on several nodes. @throws MosaicError
 * `failed_precondition`
 */
function requireOneGroup({ runId, configJson }: RunRow, done: string): void {
  const plan = planIfReadable(configJson);
  if (
    plan === undefined || plan.launcher === "local" ||
    plan.slurm.nodes * plan.slurm.tasksPerNode === 1
  ) return;
  throw new MosaicError(
    "failed_precondition",
    `run ${runId} has several ranks and cannot be ${done} by signals`,
    {
      hint:
        "A worker with metadata.worker.supports_pause: true is asked to pause, by a message to rank 0; so is one that " +
        "registers with supports_pause and follows its run on a ControlStream.",
    },
  );
}

function ended(row: RunRow, done: string): MosaicError {
  return new MosaicError(
    "failed_precondition",
    `run ${row.runId} has ended (${row.state}) and cannot be ${done}`,
  );
}

/** Commits how attempts end, and whether another attempt follows. */
import { planIfReadable, planOf, type RunPlan } from "../../config/plan.ts";
import { kindOf } from "../../os/files/file_kinds.ts";
import { freeSpaceOf, freeSpaceText } from "../../os/host/free_space.ts";
import type { Layout } from "../../base/layout.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Logger } from "../../base/log.ts";
import { queuedEvent } from "../../registry/effects.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { isDropped } from "../../registry/retention/removal.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Attempt } from "./attempt.ts";
import type { ChildRuns } from "./records/child_runs.ts";
import type { Ended } from "./state/attempt_state.ts";
import { endedEvent } from "./records/ending.ts";
import { PREEMPTED, restartDelay } from "./state/restart.ts";
import { type Verdict, verdictOf } from "./state/verdict.ts";
import { storedPath, withinRun } from "../../uploads/uploaded.ts";
import { newestCheckpoint } from "./records/worker_events.ts";
import { infoOf } from "../../os/files/untrusted.ts";

/** If its proxy dies before it has started a worker, an attempt is requeued this often. */
const MAX_START_FAILURES = 3;

export interface EndsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  /** Runs within the runs. */
  children: ChildRuns;
  /** An attempt has ended. */
  onEnded: (row: RunRow, plan: RunPlan) => void;
  /** The position in the queue that a run of this priority gets; 1 is next. */
  placeFor: (priority: number) => number;
}

interface NextAttempt {
  reason: string;
  delayMs: number;
  resumeFrom: string | null;
}

export class Ends {
  readonly #options: EndsOptions;
  /** By run id and attempt. */
  readonly #startFailures = new Map<string, number>();

  constructor(options: EndsOptions) {
    this.#options = options;
  }

  /**
   * May be called again after it has thrown.
   * @param runFailed the worker's own report of a failure
   * @returns the run's row as it is now: ended, or waiting for its next attempt
   */
  commit(attempt: Attempt, ended: Ended, now: number, runFailed: () => string | undefined): RunRow {
    if (ended.t === "not_started") return this.#startAgain(attempt, now);
    const row = this.#options.registry.require(attempt.runId);
    const leftOut = planIfReadable(row.configJson)?.leftOut;
    const report = ended.report &&
      { ...ended.report, byItself: attempt.faultedHere && ended.report.byItself === true };
    return this.#end(
      attempt,
      row,
      () => verdictOf(row, report, runFailed(), ended.oom, ended.engine, leftOut),
      now,
    );
  }

  /**
   * The next attempt of a failed run if an earlier daemon has not begun it; undefined when none is
   * due.
   */
  restart(row: RunRow): RunRow | undefined {
    const next = this.#nextAttempt(row, planOf(row.configJson));
    return next === undefined ? undefined : this.#again(row, next);
  }

  /** Whether a failed run gets another attempt by itself: it may not have begun yet. */
  isRepeated(row: RunRow): boolean {
    const plan = planIfReadable(row.configJson);
    return plan !== undefined && this.#nextAttempt(row, plan, () => undefined) !== undefined;
  }

  /** The newest checkpoint since the run was last reset, unless checkpoints are deleted. */
  checkpointOf(row: RunRow, plan: RunPlan): string | undefined {
    const { registry, telemetry, layout } = this.#options;
    const transitions = registry.transitions(row.runId);
    const reset = transitions.findLast((t) => t.event === "retry" && t.reason === "reset");
    // Checkpoints of attempts up to this one were deleted at its end.
    const dropped = !plan.artifacts.dropCheckpoints
      ? 0
      : transitions.findLast(({ to }) => to === "TERMINATED" || to === "CANCELLED")?.attempt ?? 0;
    const directory = layout.runDir(row.baseDir, row.runId);
    const placeOf = (path: string, attempt: number) => {
      const here = uploadedTo(directory, row, attempt, path) ?? path;
      return (attempt > dropped || !isDropped(directory, here)) && !isEmptyFile(here)
        ? here
        : undefined;
    };
    return newestCheckpoint(telemetry, row.runId, reset?.attempt ?? 1, placeOf);
  }

  #startAgain(attempt: Attempt, now: number): RunRow {
    const { registry, log } = this.#options;
    const { runId, files } = attempt;
    const freeSpace = freeSpaceOf(files.directory);
    if (!freeSpace.enough) {
      log.warn(
        { run_id: runId, attempt: attempt.attempt },
        "nothing was started: the disk is full",
      );
      return registry.apply(runId, {
        type: "requeued",
        reason: freeSpaceText(files.directory, freeSpace),
      });
    }
    const key = `${runId}/${attempt.attempt}`;
    const failures = (this.#startFailures.get(key) ?? 0) + 1;
    this.#startFailures.set(key, failures);
    if (failures >= MAX_START_FAILURES) {
      this.#startFailures.delete(key);
      const reason = "spawn_failed: the proxy ends before it starts the worker";
      const logs = [files.proxyLog, files.jobLog].filter((path) => kindOf(path) === "file");
      const hint = logs.length > 0
        ? `See ${logs.join(" and ")}.`
        : attempt.host.withoutLog?.() ?? "It has left no log.";
      const patch = { hint };
      return this.#end(
        attempt,
        registry.require(runId),
        () => ({ event: { type: "failed", reason }, patch }),
        now,
      );
    }
    log.warn(
      { run_id: runId, attempt: attempt.attempt, failures },
      "nothing was started; the attempt starts again",
    );
    const notBefore = Date.now() + 500 * 2 ** failures;
    return registry.apply(runId, { type: "requeued", reason: "not started" }, { notBefore });
  }

  #end(attempt: Attempt, before: RunRow, verdict: () => Verdict, now: number): RunRow {
    if (before.attempt !== attempt.attempt) return before;
    // The end is committed already; the next attempt could not be entered before.
    const entered = isEnded(before.state) && !before.damaged.includes("state");
    const row = entered ? before : this.#enter(attempt, verdict(), now);
    const next = this.#nextAttempt(row, attempt.plan);
    return next === undefined ? row : this.#again(row, next);
  }

  /** The end and its event are one transaction, so that subscribers of events miss none. */
  #enter(attempt: Attempt, { event, patch }: Verdict, now: number): RunRow {
    const { registry, telemetry, log, onEnded } = this.#options;
    const { runId, plan, progress } = attempt;
    const within = this.#options.children.importedInto(registry.require(runId));
    const row = registry.apply(runId, event, { ...patch, ...within }, (ended) => {
      const endEvent = endedEvent(ended, telemetry.summary(runId), progress.clock.used(now));
      return this.#nextAttempt(ended, plan) === undefined
        ? endEvent
        : { ...endEvent, kind: "faulted" };
    });
    this.#startFailures.delete(`${runId}/${attempt.attempt}`);
    log.info(
      { run_id: runId, attempt: attempt.attempt, state: row.state, reason: row.reason },
      "run has ended",
    );
    this.#options.children.end(row);
    onEnded(row, plan);
    return row;
  }

  /** Why and when a failed run gets another attempt: after a reset, or by its restart policy. */
  #nextAttempt(
    row: RunRow,
    plan: RunPlan,
    checkpoint = () => this.checkpointOf(row, plan),
  ): NextAttempt | undefined {
    if (row.state !== "FAULTED") return undefined;
    if (row.faultRequested === "reset") {
      return { reason: "reset", delayMs: 0, resumeFrom: row.resumeFrom };
    }
    if (row.faultRequested === PREEMPTED) {
      return { reason: PREEMPTED, delayMs: 0, resumeFrom: checkpoint() ?? row.resumeFrom };
    }
    const reason = row.reason ?? "";
    const delayMs = restartDelay(plan, {
      attempt: row.attempt,
      maxAttempts: row.maxAttempts,
      reason,
    });
    if (delayMs === undefined) return undefined;
    return { reason, delayMs, resumeFrom: checkpoint() ?? row.resumeFrom };
  }

  #again(row: RunRow, { reason, delayMs, resumeFrom }: NextAttempt): RunRow {
    const { registry, log, placeFor } = this.#options;
    log.info(
      { run_id: row.runId, attempt: row.attempt + 1, delay_ms: delayMs, reason },
      "another attempt follows",
    );
    return registry.apply(row.runId, { type: "retry", reason }, {
      notBefore: delayMs === 0 ? null : Date.now() + delayMs,
      resumeFrom,
      // An attempt that gave way to another run does not count.
      maxAttempts: Math.max(
        row.maxAttempts + (row.faultRequested === PREEMPTED ? 1 : 0),
        row.attempt + 1,
      ),
    }, (waiting) => queuedEvent(waiting, placeFor(waiting.priority)));
  }
}

/**
 * Local path of a checkpoint that a worker has saved on another disk; undefined if it was not
 * uploaded.
 */
function uploadedTo(
  directory: string,
  row: RunRow,
  attempt: number,
  path: string,
): string | undefined {
  if (!path.startsWith("/") || path.startsWith(`${directory}/`)) return undefined;
  const inner = withinRun(row.runId, attempt, path);
  const stored = inner && storedPath(row.workerId, attempt, inner);
  return stored && `${directory}/${stored}`;
}

/**
 * An empty checkpoint: its attempt died while writing, or the disk was full. A path of another host
 * is not checked.
 */
function isEmptyFile(path: string): boolean {
  if (!path.startsWith("/")) return false;
  try {
    const info = infoOf(path);
    return info?.isFile === true && info.size === 0;
  } catch {
    // The program may name the file without the extension that its library adds.
    return false;
  }
}

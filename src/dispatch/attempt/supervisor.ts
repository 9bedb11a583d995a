/**
 * All runs that have processes: who is connected, who is overdue, who has ended. It commits how runs end, and says so to
 * whoever dispatches the next.
 */
import type { ProxyHello, ProxyLink, ProxySession } from "../core/core.ts";
import { planOf, type RunPlan } from "../../config/plan.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { roomOf, roomText } from "../../os/free_space.ts";
import { RunFiles } from "../../base/layout.ts";
import type { Layout } from "../../base/layout.ts";
import { isEnded, type LifecycleEvent, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Logger } from "../../base/log.ts";
import { queuedEvent } from "../../registry/effects.ts";
import type { Told } from "../../registry/event_kinds.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunPatch, RunRow } from "../../registry/types.ts";
import type { ProcessRef } from "../../os/identity.ts";
import { isUnkept } from "../../registry/retention/removal.ts";
import type { TelemetryLog } from "../../telemetry/types.ts";
import { stepsBefore, usedMs } from "./attempt_history.ts";
import { endedEvent } from "./ending.ts";
import type { RunLimits } from "./limits.ts";
import { ABSENCE_MS } from "./proxy_keeper.ts";
import { restartDelay } from "./restart.ts";
import { SupervisedRun } from "./supervised_run.ts";
import { newestCheckpoint } from "./worker_events.ts";

/** While something is being stopped, and otherwise. */
const TICK_MS = { busy: 100, calm: 1000 } as const;
/** How often the directories of running runs are looked at for new files. */
const LOOK_MS = 10_000;
/** An attempt whose proxy dies before it has started a worker is begun anew this often. */
const MAX_START_FAILURES = 3;

/** What a supervised run needs of its surroundings. */
export interface Supervision {
  readonly registry: Registry;
  readonly telemetry: TelemetryLog;
  readonly log: Logger;
  readonly graceMs: number;
  /** Applies an event to the run's row and lets the run know. */
  apply(run: SupervisedRun, event: LifecycleEvent): void;
  /** Starts a proxy that takes over (its process is undefined when it was gone at once). Undefined when none could be started. */
  attach(run: SupervisedRun): { process: ProcessRef | undefined } | undefined;
  controlApplied(run: SupervisedRun, paused: boolean, reason: string): void;
  /** Commits the end of a run. */
  settle(run: SupervisedRun): void;
  /** A record of the worker tells of a file. */
  noted(row: RunRow, event: { kind: string; dataJson: string }): void;
  /** Something is to be looked after soon. */
  wake(): void;
}

export interface SupervisorOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  /** Between SIGTERM and SIGKILL. */
  graceSeconds: number;
  /** For runs whose config does not say. */
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  /** Proxies that may be under replacement at one time. */
  maxStarting: number;
  /** Starts a proxy with `--attach`. @throws when no process can be created. */
  attach: (row: RunRow, plan: RunPlan, files: RunFiles) => ProcessRef | undefined;
  /** A record of the worker tells of a file. */
  onNoted: (row: RunRow, event: { kind: string; dataJson: string }) => void;
  /** It is time to look at a running run's directory. */
  onLook: (row: RunRow) => void;
  /** An attempt has ended. */
  onEnded: (row: RunRow, plan: RunPlan) => void;
  /** The place in the queue that a run of this priority gets; 1 is next. */
  placeFor: (priority: number) => number;
  /** A run has ended or waits again. */
  onRoom: (row: RunRow) => void;
}

interface NextAttempt {
  reason: string;
  delayMs: number;
  resumeFrom: string | null;
}

export class Supervisor implements Supervision {
  readonly registry: Registry;
  readonly telemetry: TelemetryLog;
  readonly log: Logger;
  readonly graceMs: number;
  readonly #options: SupervisorOptions;
  readonly #runs = new Map<string, SupervisedRun>();
  /** By run id and attempt. */
  readonly #startFailures = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;
  #watching = false;
  #closing = false;
  #lookedAt = performance.now();
  /** What kept runs from being looked after when that was last tried. */
  readonly #troubles = new Map<string, string>();

  constructor(options: SupervisorOptions) {
    this.registry = options.registry;
    this.telemetry = options.telemetry;
    this.log = options.log;
    this.graceMs = options.graceSeconds * 1000;
    this.#options = options;
  }

  get(runId: string): SupervisedRun | undefined {
    return this.#runs.get(runId);
  }
  /** Runs with processes. */
  get size(): number {
    return this.#runs.size;
  }
  /** Of them, those whose proxy has not registered yet. */
  get registering(): number {
    let count = 0;
    for (const run of this.#runs.values()) if (run.registering) count++;
    return count;
  }

  /** Takes up a run whose proxy was just started. */
  started(row: RunRow, plan: RunPlan, process: ProcessRef | undefined, stepsBefore: number): void {
    const run = this.#add(row, plan, { usedMs: 0, stepsBefore, absenceMs: Infinity });
    run.keeper.started(process, performance.now(), false);
  }

  /** At boot: takes up a run that an earlier daemon has left behind. */
  adopt(row: RunRow): void {
    const run = this.#add(row, planOf(row.configJson), {
      usedMs: usedMs(this.registry, row),
      stepsBefore: stepsBefore(this.registry, row),
      absenceMs: ABSENCE_MS.boot,
    });
    try {
      run.notes.enterMissed();
    } catch (error) {
      // Taken up as a whole or not at all: it is tried again, or set aside.
      this.#runs.delete(row.runId);
      throw error;
    }
  }

  /** Begins to look after the runs, once proxies can connect. */
  watch(): void {
    this.#watching = true;
    this.wake();
  }

  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    if (this.#closing) throw new MosaicError("unavailable", "the daemon is stopping");
    const run = this.#runs.get(hello.runId);
    if (run === undefined) {
      const row = this.registry.require(hello.runId);
      // By its recovery, which waits for room.
      if (RUNNING_STATES.includes(row.state)) {
        throw new MosaicError("unavailable", `run ${row.runId} is not taken up yet by this daemon`);
      }
      throw new MosaicError("failed_precondition", `run ${row.runId} is ${row.state} and has no place for a proxy`);
    }
    return run.open(hello, link);
  }

  apply(run: SupervisedRun, event: LifecycleEvent, tell?: () => Told): void {
    run.stateIs(this.registry.apply(run.runId, event, {}, tell));
    if (event.type === "registered") this.#options.onRoom(run.row());
  }

  attach(run: SupervisedRun): { process: ProcessRef | undefined } | undefined {
    let process: ProcessRef | undefined;
    try {
      process = this.#options.attach(run.row(), run.plan, run.files);
    } catch (error) {
      this.log.error({ run_id: run.runId, error: messageOf(error) }, "no proxy could be started; tried again");
      return undefined;
    }
    try {
      this.registry.update(run.runId, { proxy: process ?? null });
    } catch (error) {
      // Only for a daemon that starts before the proxy has connected; the attempt's lock tells that one as well.
      this.log.warn({ run_id: run.runId, error: messageOf(error) }, "the proxy is not entered");
    }
    return { process };
  }

  /** Enters into the registry what is in force at the proxy. */
  controlApplied(run: SupervisedRun, paused: boolean, reason: string): void {
    const { state } = run.row();
    if (paused && (state === "READY" || state === "EXECUTING")) {
      this.apply(run, { type: "pause", reason }, () => ({ kind: "paused", data: { reason } }));
    } else if (!paused && state === "PAUSED") {
      this.apply(run, { type: "resume" }, () => ({ kind: "resumed", data: {} }));
    }
  }

  noted(row: RunRow, event: { kind: string; dataJson: string }): void {
    this.#options.onNoted(row, event);
  }

  wake(): void {
    this.#schedule(TICK_MS.busy);
  }

  /** Stops looking after the runs; they live on. */
  close(): void {
    this.#watching = false;
    this.#closing = true;
    clearTimeout(this.#timer);
    for (const run of this.#runs.values()) run.closeSession("the daemon stops");
  }

  settle(run: SupervisedRun): void {
    const { ended } = run;
    if (ended === undefined || this.#runs.get(run.runId) !== run) return;
    run.dropCgroup();
    const row = ended.type === "start_again" ? this.#startAgain(run) : this.#end(run, ended.verdict);
    this.#runs.delete(run.runId);
    this.#troubles.delete(run.runId);
    this.#options.onRoom(row);
  }

  #add(
    row: RunRow,
    plan: RunPlan,
    known: { usedMs: number; stepsBefore: number; absenceMs: number },
  ): SupervisedRun {
    const { layout } = this.#options;
    const files = new RunFiles(layout.runDir(row.baseDir, row.runId), row.workerId);
    const run = new SupervisedRun(this, row, {
      plan,
      files,
      limits: this.#limits(plan),
      now: performance.now(),
      ...known,
    });
    this.#runs.set(row.runId, run);
    this.#schedule(TICK_MS.calm);
    return run;
  }

  #limits(plan: RunPlan): RunLimits {
    const { handshakeTimeoutSeconds, heartbeatTimeoutSeconds } = this.#options;
    const { maxDurationSeconds, maxSteps, stallTimeoutSeconds } = plan.schedule;
    const ms = (seconds: number | null) => seconds === null ? null : seconds * 1000;
    return {
      // Nobody here knows when an external run's proxy will be started.
      handshakeMs: (plan.handshakeTimeoutSeconds ?? (plan.worker.external ? Infinity : handshakeTimeoutSeconds)) * 1000,
      heartbeatMs: (plan.heartbeatTimeoutSeconds ?? heartbeatTimeoutSeconds) * 1000,
      stallMs: ms(stallTimeoutSeconds),
      maxDurationMs: ms(maxDurationSeconds),
      maxSteps,
    };
  }

  #startAgain(run: SupervisedRun): RunRow {
    const room = roomOf(run.files.directory);
    if (!room.enough) {
      this.log.warn({ run_id: run.runId, attempt: run.attempt }, "nothing was started: the disk is full");
      return this.registry.apply(run.runId, { type: "requeued", reason: roomText(run.files.directory, room) });
    }
    const key = `${run.runId}/${run.attempt}`;
    const failures = (this.#startFailures.get(key) ?? 0) + 1;
    this.#startFailures.set(key, failures);
    if (failures >= MAX_START_FAILURES) {
      this.#startFailures.delete(key);
      const reason = "spawn_failed: the proxy ends before it starts the worker";
      return this.#end(run, {
        event: { type: "failed", reason },
        patch: { hint: `See ${run.files.proxyLog}.` },
      });
    }
    this.log.warn(
      { run_id: run.runId, attempt: run.attempt, failures },
      "nothing was started; the attempt begins anew",
    );
    const notBefore = Date.now() + 500 * 2 ** failures;
    return this.registry.apply(run.runId, { type: "requeued", reason: "not started" }, { notBefore });
  }

  #end(
    run: SupervisedRun,
    { event, patch }: NonNullable<Extract<SupervisedRun["ended"], { type: "verdict" }>>["verdict"],
  ): RunRow {
    const before = run.row();
    if (before.attempt !== run.attempt) return before;
    // Ended already: the next attempt could not be entered when that was last tried.
    const entered = isEnded(before.state) && !before.damaged.includes("state");
    const row = entered ? before : this.#enterEnd(run, event, patch);
    const next = this.#nextAttempt(row, run.plan);
    return next === undefined ? row : this.#again(row, next);
  }

  /** The end and the event that tells of it are one transaction: whoever follows events misses none. */
  #enterEnd(run: SupervisedRun, event: LifecycleEvent, patch: RunPatch): RunRow {
    const row = this.registry.apply(run.runId, event, patch, (ended) => {
      const told = endedEvent(ended, this.telemetry.summary(run.runId), run.clock.used(performance.now()));
      return this.#nextAttempt(ended, run.plan) === undefined ? told : { ...told, kind: "faulted" };
    });
    this.#startFailures.delete(`${run.runId}/${run.attempt}`);
    this.log.info({ run_id: run.runId, attempt: run.attempt, state: row.state, reason: row.reason }, "run has ended");
    this.#options.onEnded(row, run.plan);
    return row;
  }

  /** A failed run that an earlier daemon did not live to begin anew. */
  restartIfDue(row: RunRow): void {
    const next = this.#nextAttempt(row, planOf(row.configJson));
    if (next !== undefined) this.#options.onRoom(this.#again(row, next));
  }

  /** Why and when a failed run gets another attempt: by a reset, or by its restart policy. */
  #nextAttempt(row: RunRow, plan: RunPlan): NextAttempt | undefined {
    if (row.state !== "FAULTED") return undefined;
    if (row.faultRequested === "reset") return { reason: "reset", delayMs: 0, resumeFrom: row.resumeFrom };
    const reason = row.reason ?? "";
    const delayMs = restartDelay(plan, { attempt: row.attempt, maxAttempts: row.maxAttempts, reason });
    if (delayMs === undefined) return undefined;
    return { reason, delayMs, resumeFrom: this.checkpointOf(row, plan) ?? row.resumeFrom };
  }

  #again(row: RunRow, { reason, delayMs, resumeFrom }: NextAttempt): RunRow {
    this.log.info(
      { run_id: row.runId, attempt: row.attempt + 1, delay_ms: delayMs, reason },
      "another attempt follows",
    );
    return this.registry.apply(row.runId, { type: "retry", reason }, {
      notBefore: delayMs === 0 ? null : Date.now() + delayMs,
      resumeFrom,
      maxAttempts: Math.max(row.maxAttempts, row.attempt + 1),
    }, (waiting) => queuedEvent(waiting, this.#options.placeFor(waiting.priority)));
  }

  /** The newest checkpoint that the run has saved since it was last reset, unless it was not to be kept. */
  checkpointOf(row: RunRow, plan: RunPlan): string | undefined {
    const transitions = this.registry.transitions(row.runId);
    const reset = transitions.findLast((t) => t.event === "retry" && t.reason === "reset");
    // Up to this attempt they went with its end.
    const dropped = !plan.artifacts.dropCheckpoints
      ? 0
      : transitions.findLast(({ to }) => to === "TERMINATED" || to === "CANCELLED")?.attempt ?? 0;
    const directory = this.#options.layout.runDir(row.baseDir, row.runId);
    const isThere = (path: string, attempt: number) => attempt > dropped || !isUnkept(directory, path);
    return newestCheckpoint(this.telemetry, row.runId, reset?.attempt ?? 1, isThere);
  }

  #schedule(ms: number): void {
    const at = performance.now() + ms;
    if (!this.#watching || at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#tick(), ms);
  }

  #tick(): void {
    this.#timerAt = Infinity;
    const now = performance.now();
    const look = now - this.#lookedAt >= LOOK_MS;
    if (look) this.#lookedAt = now;
    let busy = false;
    let replacing = 0;
    for (const run of this.#runs.values()) if (run.keeper.replacing) replacing++;
    for (const run of [...this.#runs.values()]) {
      try {
        const before = run.keeper.replacing;
        run.tick(now, replacing < this.#options.maxStarting);
        if (run.keeper.replacing && !before) replacing++;
        this.settle(run);
        if (look && run.connected) this.#options.onLook(run.row());
        this.#troubles.delete(run.runId);
      } catch (error) {
        // A disk that is full, say: nothing was committed, and the next look tries again.
        const trouble = messageOf(error);
        if (this.#troubles.get(run.runId) !== trouble) {
          this.log.error({ run_id: run.runId, error: trouble }, "run could not be looked after; tried again");
        }
        this.#troubles.set(run.runId, trouble);
      }
      busy ||= run.stopping || !run.connected;
    }
    if (this.#runs.size > 0) this.#schedule(busy ? TICK_MS.busy : TICK_MS.calm);
  }
}

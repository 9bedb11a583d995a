/**
 * All attempts that have, or may have, processes. It asks each of them what is to be done, and performs it: writes to the
 * registry, messages to proxies, processes by their host. Calls go one way: adapters → supervisor → attempt.
 */
import type { ControlWish, ProxyHello, ProxyLink, ProxySession } from "../core/core.ts";
import { planOf, type RunPlan } from "../../config/plan.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { RunFiles } from "../../base/layout.ts";
import type { ProcessRef } from "../../os/identity.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import { isEnded, type LifecycleEvent, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Told } from "../../registry/event_kinds.ts";
import type { RunRow } from "../../registry/types.ts";
import type { IngestBatch } from "../../telemetry/batch.ts";
import { Attempt } from "./attempt.ts";
import { stepsBefore, usedMs } from "./attempt_history.ts";
import type { Effect } from "./attempt_state.ts";
import { Ends, type EndsOptions } from "./ends.ts";
import { EventNotes } from "./event_notes.ts";
import type { Host } from "./host.ts";
import { Intake } from "./intake.ts";
import type { RunLimits } from "./limits.ts";
import { Progress } from "./progress.ts";
import { type AppliedControl, type BatchSamples, Session, type SessionOwner } from "./session.ts";

/** While something is being stopped, and otherwise. */
const TICK_MS = { busy: 100, calm: 1000 } as const;
/** Between two searches of the directories of running runs for new files. */
const FILES_MS = 10_000;
/** How long a proxy that an earlier daemon has started may take to connect to this one. */
const BOOT_ABSENCE_MS = 5000;

export interface SupervisorOptions extends EndsOptions {
  /** The host that a run's attempts are on. */
  hostOf: (plan: RunPlan) => Host;
  /** Between SIGTERM and SIGKILL. */
  graceSeconds: number;
  /** For runs whose config does not say. */
  heartbeatTimeoutSeconds: number;
  /** Proxies that may be under replacement at one time. */
  maxStarting: number;
  /** A record of the worker names a file. */
  onNoted: (row: RunRow, event: { kind: string; dataJson: string }) => void;
  /** It is time to search a running run's directory. */
  onLook: (row: RunRow) => void;
  /** A run has ended, waits again, or has registered. */
  onRoom: (row: RunRow) => void;
  /** Milliseconds of a monotonic clock. */
  clock?: () => number;
}

interface Supervised {
  readonly attempt: Attempt;
  readonly intake: Intake;
}

export class Supervisor implements SessionOwner {
  readonly #options: SupervisorOptions;
  readonly #ends: Ends;
  readonly #clock: () => number;
  readonly #runs = new Map<string, Supervised>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;
  #mode: "not begun" | "watching" | "closed" = "not begun";
  #filesAt: number;
  /** What kept runs from being supervised when that was last tried. */
  readonly #troubles = new Map<string, string>();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#ends = new Ends(options);
    this.#clock = options.clock ?? (() => performance.now());
    this.#filesAt = this.#clock();
  }

  get(runId: string): Attempt | undefined {
    return this.#runs.get(runId)?.attempt;
  }
  /** Runs with processes. */
  get size(): number {
    return this.#runs.size;
  }
  /** Of them, those whose proxy was started here and has not registered yet. */
  get registering(): number {
    let count = 0;
    for (const { attempt } of this.#runs.values()) if (attempt.registering) count++;
    return count;
  }

  // ------------------------------------------------------------------------------------------- beginning and closing

  /** Supervises an attempt whose proxy was just started. */
  started(row: RunRow, plan: RunPlan, process: ProcessRef | undefined, stepsBefore: number): void {
    const { attempt } = this.#add(row, plan, { usedMs: 0, stepsBefore, absenceMs: Infinity });
    attempt.host.proxyStarted(process, this.#clock());
  }

  /** Recovers an attempt that an earlier daemon has left; does nothing for one that is supervised. */
  adopt(row: RunRow): void {
    if (this.#runs.has(row.runId)) return;
    const { registry, graceSeconds } = this.#options;
    const supervised = this.#add(row, planOf(row.configJson), {
      usedMs: usedMs(registry, row),
      stepsBefore: stepsBefore(registry, row),
      absenceMs: BOOT_ABSENCE_MS,
    });
    try {
      supervised.intake.notes.enterMissed();
      if (row.cancelRequestedAt !== null || row.faultRequested !== null) {
        this.#perform(supervised, supervised.attempt.stop(graceSeconds * 1000, this.#clock()));
      }
    } catch (error) {
      // Recovered as a whole or not at all: it is tried again, or quarantined.
      this.#runs.delete(row.runId);
      throw error;
    }
  }

  /** Begins to supervise, once proxies can connect. */
  watch(): void {
    this.#mode = "watching";
    this.#schedule(TICK_MS.busy);
  }

  /** Ends supervision; the runs live on. */
  close(): void {
    this.#mode = "closed";
    clearTimeout(this.#timer);
    for (const { attempt } of this.#runs.values()) {
      const { link } = attempt;
      attempt.disconnected();
      link?.close("the daemon stops");
    }
  }

  #add(
    row: RunRow,
    plan: RunPlan,
    known: { usedMs: number; stepsBefore: number; absenceMs: number },
  ): Supervised {
    const { layout, registry, telemetry, log, hostOf, graceSeconds, onNoted } = this.#options;
    const { runId } = row;
    const files = new RunFiles(layout.runDir(row.baseDir, runId), row.workerId);
    const now = this.#clock();
    const host = hostOf(plan);
    const attempt = new Attempt(row, {
      plan,
      files,
      host: host.attempt(row, { plan, files, now, absenceMs: known.absenceMs }),
      progress: new Progress({
        limits: this.#limits(plan, host),
        state: row.state,
        steps: telemetry.summary(runId).steps - known.stepsBefore,
        now,
        usedMs: known.usedMs,
      }),
      graceMs: graceSeconds * 1000,
    });
    const tellsOfFile = (event: { kind: string; dataJson: string }) => onNoted(registry.require(runId), event);
    const notes = new EventNotes(runId, row.attempt, { registry, telemetry, log, tellsOfFile });
    const supervised = { attempt, intake: new Intake(row, { telemetry, log, notes }) };
    this.#runs.set(runId, supervised);
    this.#schedule(TICK_MS.calm);
    return supervised;
  }

  #limits(plan: RunPlan, host: Host): RunLimits {
    const { maxDurationSeconds, maxSteps, stallTimeoutSeconds } = plan.schedule;
    const ms = (seconds: number | null) => seconds === null ? null : seconds * 1000;
    return {
      handshakeMs: ms(plan.handshakeTimeoutSeconds) ?? host.handshakeMs,
      heartbeatMs: (plan.heartbeatTimeoutSeconds ?? this.#options.heartbeatTimeoutSeconds) * 1000,
      stallMs: ms(stallTimeoutSeconds),
      maxDurationMs: ms(maxDurationSeconds),
      maxSteps,
    };
  }

  // ------------------------------------------------------------------------------------------------- the proxy

  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    if (this.#mode === "closed") throw new MosaicError("unavailable", "the daemon is stopping");
    const { registry, log } = this.#options;
    const supervised = this.#runs.get(hello.runId);
    const row = registry.require(hello.runId);
    if (supervised === undefined) {
      // By its recovery, which waits for free space.
      if (RUNNING_STATES.includes(row.state)) {
        throw new MosaicError("unavailable", `run ${row.runId} is not recovered yet by this daemon`);
      }
      throw new MosaicError("failed_precondition", `run ${row.runId} is ${row.state}: no proxy can serve it`);
    }
    const { attempt } = supervised;
    const { host, progress } = attempt;
    const { phase } = attempt.state;
    if (isEnded(row.state) || row.attempt !== hello.attempt || phase.t === "exited" || phase.t === "ended") {
      throw new MosaicError("failed_precondition", `attempt ${hello.attempt} of run ${row.runId} is over`);
    }
    host.admit(row, hello);
    // Who says hello is alive, even if a full disk keeps its session from being entered.
    const now = this.#clock();
    progress.clock.signOfLife(now);
    host.proxySeen(hello.proxy, now);
    const worker = hello.worker ?? host.worker() ?? null;
    registry.update(row.runId, { proxy: hello.proxy, worker });
    this.#apply(attempt, { type: "registered" });
    const session = new Session(this, row.runId, {
      position: this.#positionOf(attempt),
      control: this.#desired(attempt),
    });
    host.proxyConnected(hello.proxy, worker ?? undefined);
    this.#perform(supervised, attempt.connected(session, link));
    log.info(
      { run_id: row.runId, attempt: row.attempt, proxy: hello.proxy.pid, worker: worker?.pid },
      "proxy connected",
    );
    return session;
  }

  /** Up to where the attempt's journal is stored. */
  #positionOf({ runId, attempt }: Attempt): number {
    const { telemetry } = this.#options;
    // Batches of an earlier connection may wait for their commit.
    telemetry.commitWaiting();
    const stored = telemetry.summary(runId);
    return stored.attempt === attempt ? stored.journalPosition : 0;
  }

  async deliver(
    session: Session,
    delivered: IngestBatch,
    journalSize: number,
    samples: BatchSamples,
  ): Promise<number> {
    const supervised = this.#current(session);
    const { attempt, intake } = supervised;
    const { result, batch } = await intake.store(delivered);
    if (result.type === "gap") return result.position;
    const now = this.#clock();
    if (result.type === "stored") {
      session.writtenBefore ??= journalSize;
      attempt.progress.delivered(result.steps, batch.to <= session.writtenBefore, now);
      intake.noteEvents(result);
      intake.sample(batch, samples, now);
    }
    // It may have ended during the commit.
    if (this.#runs.get(attempt.runId) !== supervised) return result.position;
    const rule = attempt.plan.telemetry.strict ? Object.keys(batch.violations)[0] : undefined;
    if (result.type === "stored" && rule !== undefined) this.fault(attempt.runId, `telemetry_schema: ${rule}`);
    if (result.type === "duplicate" || result.steps + result.episodes + result.events.length > 0) this.#active(attempt);
    this.#alive(attempt, journalSize);
    return result.position;
  }

  commitBatches(): void {
    this.#options.telemetry.commitWaiting();
  }

  proxyHeartbeat(session: Session, journalSize: number): void {
    this.#alive(this.#current(session).attempt, journalSize);
  }

  /** Enters into the registry what is in force at the proxy. */
  controlApplied(session: Session, applied: AppliedControl): void {
    const { attempt } = this.#current(session);
    this.#alive(attempt);
    const byPolicy = attempt.backpressure.hold.paused ? "backpressure" : "by request";
    const reason = applied.selfPaused === "" ? byPolicy : applied.selfPaused;
    const paused = applied.paused || applied.selfPaused !== "";
    const { state } = this.#row(attempt);
    if (paused && (state === "READY" || state === "EXECUTING")) {
      this.#apply(attempt, { type: "pause", reason }, () => ({ kind: "paused", data: { reason } }));
    } else if (!paused && state === "PAUSED") {
      this.#apply(attempt, { type: "resume" }, () => ({ kind: "resumed", data: {} }));
    }
  }

  exitReported(session: Session, report: ExitReport): void {
    const supervised = this.#current(session);
    const { attempt, intake } = supervised;
    intake.notes.enterWaiting();
    const { code, signal, lost } = report;
    if (signal !== "" || code !== 0) {
      this.#options.log.info(
        { run_id: attempt.runId, attempt: attempt.attempt, code, signal, lost },
        "worker has ended",
      );
    }
    this.#perform(supervised, attempt.exit(report, this.#clock()));
  }

  sessionClosed(session: Session): void {
    const supervised = this.#runs.get(session.runId);
    if (supervised === undefined || supervised.attempt.session !== session) return;
    supervised.attempt.host.proxyAbsent(this.#clock());
    this.#perform(supervised, supervised.attempt.disconnected());
  }

  #current(session: Session): Supervised {
    const supervised = this.#runs.get(session.runId);
    if (supervised?.attempt.session === session) return supervised;
    throw new MosaicError("aborted", `another proxy of run ${session.runId} has taken over, or the attempt is over`);
  }

  // ------------------------------------------------------------------------------------- the worker's own calls

  /** The worker, or its proxy for it, has registered. */
  registered(runId: string): void {
    const { attempt } = this.#supervised(runId);
    this.#apply(attempt, { type: "registered" });
    this.#alive(attempt);
  }

  /** A sign of life of the worker. */
  heartbeat(runId: string): void {
    const attempt = this.get(runId);
    if (attempt !== undefined) this.#alive(attempt);
  }

  /** Telemetry that came beside the journal was stored. */
  published(runId: string, steps: number): void {
    const { attempt } = this.#supervised(runId);
    attempt.progress.published(steps, this.#clock());
    this.#active(attempt);
    this.#options.registry.touchHeartbeat(runId, Date.now());
  }

  #alive(attempt: Attempt, journalSize = attempt.progress.journalSize): void {
    attempt.progress.alive(journalSize, this.#clock());
    this.#options.registry.touchHeartbeat(attempt.runId, Date.now());
  }

  #active(attempt: Attempt): void {
    const worker = attempt.host.newWorker();
    if (worker !== undefined) this.#options.registry.update(attempt.runId, { worker });
    const { state } = attempt.progress;
    if (state === "HANDSHAKE" || state === "READY") this.#apply(attempt, { type: "active" });
  }

  // ------------------------------------------------------------------------------------------------- control

  /** Stops the worker's process group. What the run becomes is decided by what the registry says was asked. */
  stop(runId: string, graceMs: number): void {
    const supervised = this.#supervised(runId);
    this.#perform(supervised, supervised.attempt.stop(graceMs, this.#clock()));
  }

  /** The run has failed by the daemon's decision: recorded first, then stopped. */
  fault(runId: string, reason: string): void {
    const { registry, log, graceSeconds } = this.#options;
    const supervised = this.#supervised(runId);
    const { attempt } = supervised;
    const { phase } = attempt.state;
    const row = this.#row(attempt);
    if (phase.t === "exited" || phase.t === "ended") return;
    if (row.faultRequested === null && row.cancelRequestedAt === null) {
      registry.update(runId, { faultRequested: reason });
      log.warn({ run_id: runId, attempt: attempt.attempt, reason }, "run is stopped");
    } else if (phase.t === "stopping") {
      return;
    }
    const silent = reason === "heartbeat_timeout";
    this.#perform(supervised, attempt.stop(graceSeconds * 1000, this.#clock(), silent));
  }

  /** Sends the desired control to the proxy, if one is connected. */
  sendControl(runId: string): void {
    const attempt = this.get(runId);
    attempt?.link?.control(this.#desired(attempt));
  }

  /** Another limit holds: what the run made under the one before says nothing of its rate now. */
  throttled(runId: string): void {
    this.get(runId)?.progress.rate.restart(this.#clock());
    this.sendControl(runId);
  }

  #desired(attempt: Attempt): ControlWish {
    return attempt.desired(this.#row(attempt));
  }

  // -------------------------------------------------------------------------------------------------- ends

  /** Another attempt of a failed run, if it is due and no daemon has begun it. */
  restartIfDue(row: RunRow): void {
    const waiting = this.#ends.restart(row);
    if (waiting !== undefined) this.#options.onRoom(waiting);
  }

  /** The checkpoint that a next attempt would resume from. */
  checkpointOf(row: RunRow): string | undefined {
    return this.#ends.checkpointOf(row, planOf(row.configJson));
  }

  #settle({ attempt, intake }: Supervised): void {
    const { phase } = attempt.state;
    if (phase.t !== "ended" || this.get(attempt.runId) !== attempt) return;
    attempt.host.release();
    const row = this.#ends.commit(attempt, phase.ended, this.#clock(), () => intake.notes.failed());
    this.#runs.delete(attempt.runId);
    this.#troubles.delete(attempt.runId);
    this.#options.onRoom(row);
  }

  // -------------------------------------------------------------------------------------------------- effects

  #perform(supervised: Supervised, effects: readonly Effect[], mayReplace = false): void {
    for (const effect of effects) this.#performOne(supervised, effect, mayReplace);
  }

  #performOne(supervised: Supervised, effect: Effect, mayReplace: boolean): void {
    const { attempt } = supervised;
    const { host } = attempt;
    switch (effect.do) {
      case "fault":
        return this.fault(attempt.runId, effect.reason);
      case "tell_proxy":
        return effect.link.stop(effect.graceSeconds);
      case "signal":
        for (const signal of effect.signals) host.signal(signal);
        return;
      case "disconnect":
        return effect.link.close(effect.reason);
      case "replace_proxy":
        this.#options.log.warn({ run_id: attempt.runId }, "the proxy does not report an exit and is replaced");
        return host.killProxy();
      case "keep_proxy":
        return this.#keepProxy(supervised, effect.stoppingSince, mayReplace);
      case "attach":
        return this.#attach(attempt);
      case "end_rest":
        return this.#perform(supervised, attempt.rest(host.endRest()));
      case "settle":
        return this.#settle(supervised);
      case "wake":
        return this.#schedule(TICK_MS.busy);
      case "tick_soon":
        return queueMicrotask(() =>
          this.#guarded(attempt, () => this.#perform(supervised, attempt.tick(this.#clock())))
        );
    }
  }

  #keepProxy(supervised: Supervised, stoppingSince: number | undefined, mayReplace: boolean): void {
    const { attempt } = supervised;
    const now = this.#clock();
    const registered = attempt.progress.state !== "HANDSHAKE";
    const step = attempt.host.whileAbsent({ now, registered, stoppingSince, mayReplace });
    if (step.do === "exited") {
      this.#options.log.error(
        { run_id: attempt.runId, exit: step.report },
        "no proxy survives: the run ends with what is stored of its telemetry",
      );
    }
    this.#perform(supervised, attempt.absence(step, now));
  }

  #attach(attempt: Attempt): void {
    const { registry, log } = this.#options;
    const about = { run_id: attempt.runId, attempt: attempt.attempt };
    let process: ProcessRef | undefined;
    try {
      process = attempt.host.attach(this.#row(attempt), this.#clock());
    } catch (error) {
      log.error({ ...about, error: messageOf(error) }, "no proxy could be started; tried again");
      return;
    }
    log.warn(about, "the proxy is gone; another takes over");
    try {
      registry.update(attempt.runId, { proxy: process ?? null });
    } catch (error) {
      // Only for a daemon that starts before the proxy has connected; the attempt's lock tells that one as well.
      log.warn({ ...about, error: messageOf(error) }, "the proxy is not entered");
    }
  }

  #apply(attempt: Attempt, event: LifecycleEvent, tell?: () => Told): void {
    const row = this.#options.registry.apply(attempt.runId, event, {}, tell);
    attempt.progress.stateIs(row.state, this.#clock());
    if (event.type === "registered") this.#options.onRoom(row);
  }

  #row({ runId }: Attempt): RunRow {
    return this.#options.registry.require(runId);
  }

  #supervised(runId: string): Supervised {
    const supervised = this.#runs.get(runId);
    if (supervised !== undefined) return supervised;
    throw new MosaicError("failed_precondition", `run ${runId} has no processes that this daemon supervises`);
  }

  // ---------------------------------------------------------------------------------------------------- ticks

  #schedule(ms: number): void {
    const at = performance.now() + ms;
    if (this.#mode !== "watching" || at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.tick();
    }, ms);
  }

  /** Supervises each run once; called by a timer while there are runs. */
  tick(): void {
    const { maxStarting, onLook } = this.#options;
    const now = this.#clock();
    const filesDue = now - this.#filesAt >= FILES_MS;
    if (filesDue) this.#filesAt = now;
    let busy = false;
    let replacing = 0;
    for (const { attempt } of this.#runs.values()) if (attempt.host.replacing) replacing++;
    for (const supervised of [...this.#runs.values()]) {
      const { attempt } = supervised;
      this.#guarded(attempt, () => {
        const before = attempt.host.replacing;
        this.#tickOne(supervised, now, replacing < maxStarting);
        if (attempt.host.replacing && !before) replacing++;
        if (filesDue && attempt.session !== undefined) onLook(this.#row(attempt));
      });
      busy ||= attempt.busy;
    }
    if (this.#runs.size > 0) this.#schedule(busy ? TICK_MS.busy : TICK_MS.calm);
  }

  #tickOne(supervised: Supervised, now: number, mayReplace: boolean): void {
    const { attempt, intake } = supervised;
    intake.notes.enterWaiting();
    const effects = attempt.tick(now);
    try {
      this.#perform(supervised, effects, mayReplace);
    } catch (error) {
      // What kept a silence from being entered may have silenced the worker too.
      if (effects.some((effect) => effect.do === "fault")) attempt.progress.clock.output(now);
      throw error;
    }
    const hold = attempt.holdChange(now);
    if (hold === undefined) return;
    this.#options.log.info({ run_id: attempt.runId, ...hold }, "backpressure");
    this.sendControl(attempt.runId);
  }

  #guarded(attempt: Attempt, work: () => void): void {
    const { runId } = attempt;
    try {
      work();
      this.#troubles.delete(runId);
    } catch (error) {
      // A full disk, say: nothing was committed, and the next tick tries again.
      const trouble = messageOf(error);
      if (this.#troubles.get(runId) !== trouble) {
        this.#options.log.error({ run_id: runId, error: trouble }, "run could not be supervised; tried again");
      }
      this.#troubles.set(runId, trouble);
    }
  }
}

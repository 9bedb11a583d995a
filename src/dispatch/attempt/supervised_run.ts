/**
 * One attempt of one run that has (or may have) processes: its proxy's session, its limits, its stop, its end.
 *
 * The end comes in one way: a proxy delivers the journal and reports the exit, then the process group is made sure to be
 * gone, then the run's last transition is committed. A fault or cancellation only sees to it that the group dies; the
 * report that follows ends the run. Without any proxy that could report (none survives), the daemon ends it by what is on disk.
 *
 * Nothing here is needed for recovery: what must outlive the daemon is in the registry and in the run's directory.
 */
import { RateMeter } from "../../base/rate.ts";
import type { ControlWish, ProxyHello, ProxyLink } from "../core/core.ts";
import type { RunPlan } from "../../config/plan.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { RunFiles } from "../../base/layout.ts";
import { roomOf } from "../../os/free_space.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { ExitReport, OutOfMemory } from "../../registry/failure/explain.ts";
import { endCgroup, oomKilled } from "../../os/cgroups.ts";
import { groupAlive } from "../../os/signals.ts";
import { cgroupOf } from "../../proxy/start_file.ts";
import type { RunRow } from "../../registry/types.ts";
import type { ProcessRef } from "../../os/identity.ts";
import type { IngestBatch } from "../../telemetry/batch.ts";
import { lesserBatches } from "../../telemetry/refused.ts";
import { refusesContent } from "../../telemetry/store/failures.ts";
import type { IngestResult } from "../../telemetry/types.ts";
import { exitOf, forbidWorker, workerOf } from "./attempt_files.ts";
import { Backpressure } from "./backpressure.ts";
import { EventNotes } from "./event_notes.ts";
import { GroupStop } from "./group_stop.ts";
import { RunClock, type RunLimits } from "./limits.ts";
import { ABSENCE_MS, ProxyKeeper } from "./proxy_keeper.ts";
import { Session } from "./proxy_admission.ts";
import type { Supervision } from "./supervisor.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** How long a connected proxy may take to report the exit of a group that is gone. */
const REPORT_MS = 30_000;
/** The same of a proxy that has been silent for the whole heartbeat timeout. */
const SILENT_REPORT_MS = 5000;
/** Warnings with samples of what a worker wrote wrongly: at most one per this many milliseconds and run. */
const SAMPLE_INTERVAL_MS = 10_000;

/** How a run that is supervised no longer goes on. */
export type Ended =
  /** The verdict is to be committed. */
  | { type: "verdict"; verdict: Verdict }
  /** Nothing was started; the attempt begins anew. */
  | { type: "start_again" };

export class SupervisedRun {
  readonly runId: string;
  readonly attempt: number;
  readonly plan: RunPlan;
  readonly files: RunFiles;
  readonly limits: RunLimits;
  readonly clock: RunClock;
  readonly keeper: ProxyKeeper;
  readonly rate = new RateMeter();
  readonly backpressure: Backpressure;
  readonly notes: EventNotes;
  /** Bytes of the journal that the worker has written, as far as the proxy has told. */
  journalSize = 0;
  readonly #supervision: Supervision;
  #state: RunRow["state"];
  #session: Session | undefined;
  #link: ProxyLink | undefined;
  #worker: ProcessRef | undefined;
  /** Bytes of the journal that were there when this connection's first batch came: what is read late is no rate. */
  #writtenBefore: number | undefined;
  /** Steps of this attempt. */
  #steps: number;
  #stop: GroupStop | undefined;
  /** The exit was taken (without a report: nothing is known of it); only the rest of the group is waited for. */
  #exit: { report: ExitReport | undefined; runFailed: string | undefined; oom?: OutOfMemory } | undefined;
  #ended: Ended | undefined;
  /** Stopped because neither the worker nor its proxy gave a sign of life. */
  #silent = false;
  #sampledAt = -SAMPLE_INTERVAL_MS;

  constructor(supervision: Supervision, row: RunRow, options: {
    plan: RunPlan;
    files: RunFiles;
    limits: RunLimits;
    now: number;
    usedMs: number;
    stepsBefore: number;
    absenceMs: number;
  }) {
    this.#supervision = supervision;
    this.runId = row.runId;
    this.attempt = row.attempt;
    this.plan = options.plan;
    this.files = options.files;
    this.limits = options.limits;
    this.backpressure = new Backpressure(options.plan.backpressure);
    this.clock = new RunClock(options.now, options.usedMs);
    this.keeper = new ProxyKeeper(options.files, row.attempt, row.proxy ?? undefined, options.now, options.absenceMs);
    this.notes = new EventNotes(row.runId, row.attempt, {
      ...{ registry: supervision.registry, telemetry: supervision.telemetry, log: supervision.log },
      tellsOfFile: (event) => supervision.noted(this.row(), event),
    });
    this.#state = row.state;
    this.#worker = row.worker ?? undefined;
    this.#steps = supervision.telemetry.summary(row.runId).steps - options.stepsBefore;
    this.clock.pausedIs(row.state === "PAUSED", options.now);
    if (row.cancelRequestedAt !== null || row.faultRequested !== null) this.stop(supervision.graceMs);
  }

  /** Undefined while the run is to be supervised further. */
  get ended(): Ended | undefined {
    return this.#ended;
  }
  get connected(): boolean {
    return this.#session !== undefined;
  }
  get stopping(): boolean {
    return this.#stop !== undefined || this.#exit !== undefined;
  }
  get registering(): boolean {
    return this.#state === "HANDSHAKE" && !this.#isExternal;
  }

  /** Its proxy and worker are processes of another host or container: their pids mean nothing here. */
  get #isExternal(): boolean {
    return this.plan.worker.external;
  }

  row(): RunRow {
    return this.#supervision.registry.require(this.runId);
  }

  /** The registry's row has changed its state. */
  stateIs(row: RunRow): void {
    const now = performance.now();
    // Nothing that was before a pause, nor the pause itself, is part of the rate afterwards.
    if (row.state === "EXECUTING" && this.#state === "PAUSED") this.rate.restart(now);
    this.#state = row.state;
    this.clock.pausedIs(row.state === "PAUSED", now);
  }

  /** Another limit holds: what the run made under the one before tells nothing of its rate now. */
  throttled(): void {
    this.rate.restart(performance.now());
    this.sendWish();
  }

  /** The leader of the worker's group; a proxy that died before it connected has left it in a file. */
  worker(): ProcessRef | undefined {
    return this.#isExternal ? undefined : this.#worker ??= workerOf(this.files, this.attempt);
  }

  // ------------------------------------------------------------------------------------------------- the session

  /** A newer connection replaces the older one. */
  open(hello: ProxyHello, link: ProxyLink): Session {
    const { registry, log } = this.#supervision;
    const row = this.row();
    if (isEnded(row.state) || row.attempt !== hello.attempt || this.#exit !== undefined) {
      throw new MosaicError("failed_precondition", `attempt ${hello.attempt} of run ${this.runId} is over`);
    }
    if (this.#isExternal) requireSameStart(row, hello);
    // Who asks is alive, even if a full disk keeps its session from being entered.
    const now = performance.now();
    this.clock.signOfLife(now);
    this.keeper.knocked(hello.proxy, now);
    const worker = hello.worker ?? this.worker() ?? null;
    registry.update(this.runId, { proxy: hello.proxy, worker });
    this.#supervision.apply(this, { type: "registered" });
    this.#link?.close("a newer proxy of this run has connected");
    this.#worker = worker ?? undefined;
    this.#link = link;
    this.#session = new Session(this, this.#supervision);
    this.#writtenBefore = undefined;
    this.keeper.connected(hello.proxy);
    this.#stop?.proxyConnected();
    log.info(
      { run_id: this.runId, attempt: this.attempt, proxy: hello.proxy.pid, worker: worker?.pid },
      "proxy connected",
    );
    // The stop goes out after the welcome.
    if (this.#stop !== undefined) queueMicrotask(() => this.#advanceStop(performance.now()));
    return this.#session;
  }

  /** What people and the backpressure policy want, whichever is stricter. */
  wish(): ControlWish {
    const row = this.row();
    const { paused, maxRateHz } = this.backpressure.hold;
    const rates = [row.maxRateHz, maxRateHz].filter((rate) => rate > 0);
    return { paused: row.pauseRequested || paused, maxRateHz: rates.length === 0 ? 0 : Math.min(...rates) };
  }

  /** Tells the proxy what is wanted of the worker by now. */
  sendWish(): void {
    this.#link?.control(this.wish());
  }

  requireCurrent(session: Session): void {
    if (session === this.#session) return;
    throw new MosaicError("aborted", `another proxy of run ${this.runId} has taken over`);
  }

  sessionClosed(session: Session): void {
    if (session !== this.#session) return;
    this.#session = undefined;
    this.#link = undefined;
    this.keeper.disconnected(performance.now());
    this.#supervision.wake();
  }

  closeSession(reason: string): void {
    this.#link?.close(reason);
    this.#session = undefined;
    this.#link = undefined;
  }

  // ------------------------------------------------------------------------------------------- what the run says

  /** @returns where the stored journal ends now */
  async ingest(
    delivered: IngestBatch,
    journalSize: number,
    samples: { malformed: string[]; violations: string[] },
  ): Promise<number> {
    const { result, batch } = await this.#store(delivered);
    if (result.type === "gap") return result.position;
    if (result.type === "stored") {
      this.#steps += result.steps;
      this.#measure(result.steps, batch, journalSize);
      if (result.events.length > 0) this.notes.stored(result.events, result.lastEvent);
      this.#sample(batch, samples);
      if (this.plan.telemetry.strict) this.#strict(batch);
    }
    if (result.type === "duplicate" || result.steps + result.episodes + result.events.length > 0) this.active();
    this.alive(journalSize);
    return result.position;
  }

  /**
   * The batch, or as much of it as the store takes: what it refuses for its content it would refuse for ever.
   * @throws what has nothing to do with the content, such as a full disk
   */
  async #store(batch: IngestBatch): Promise<{ result: IngestResult; batch: IngestBatch }> {
    const { telemetry, log } = this.#supervision;
    try {
      return { result: await telemetry.deliver(this.runId, this.attempt, batch), batch };
    } catch (error) {
      if (!refusesContent(error)) throw error;
      const why = messageOf(error);
      for (const less of lesserBatches(batch, why)) {
        try {
          const result = await telemetry.deliver(this.runId, this.attempt, less);
          const { from, to } = batch;
          log.error(
            { run_id: this.runId, attempt: this.attempt, from, to, error: why },
            "records are refused by the store",
          );
          return { result, batch: less };
        } catch (again) {
          if (!refusesContent(again)) throw again;
        }
      }
      throw error;
    }
  }

  #measure(steps: number, batch: IngestBatch, journalSize: number): void {
    const now = performance.now();
    this.#writtenBefore ??= journalSize;
    if (batch.to <= this.#writtenBefore) this.rate.restart(now);
    else if (steps > 0) this.rate.add(steps, now);
  }

  /** Telemetry that came beside the journal (the original's Publish RPCs). */
  published(steps: number): void {
    this.#steps += steps;
    const now = performance.now();
    if (steps > 0) this.rate.add(steps, now);
    this.active();
    this.clock.output(now);
    this.#supervision.registry.touchHeartbeat(this.runId, Date.now());
  }

  /** A sign of life; new output when the journal has grown. */
  alive(journalSize = this.journalSize): void {
    const now = performance.now();
    if (journalSize > this.journalSize) {
      this.journalSize = journalSize;
      this.clock.output(now);
    } else {
      this.clock.signOfLife(now);
    }
    this.#supervision.registry.touchHeartbeat(this.runId, Date.now());
  }

  active(): void {
    if (this.#worker === undefined && this.worker() !== undefined) {
      this.#supervision.registry.update(this.runId, { worker: this.#worker });
    }
    if (this.#state === "HANDSHAKE" || this.#state === "READY") this.#supervision.apply(this, { type: "active" });
  }

  #sample(batch: IngestBatch, samples: { malformed: string[]; violations: string[] }): void {
    const violations = Object.keys(batch.violations).length;
    if (batch.malformedLines === 0 && violations === 0) return;
    const now = performance.now();
    if (now - this.#sampledAt < SAMPLE_INTERVAL_MS) return;
    this.#sampledAt = now;
    this.#supervision.log.warn(
      { run_id: this.runId, malformed: batch.malformedLines, violations: batch.violations, samples },
      "telemetry that cannot be read or breaks its schema",
    );
  }

  #strict(batch: IngestBatch): void {
    const rule = Object.keys(batch.violations)[0];
    if (rule !== undefined) this.fault(`telemetry_schema: ${rule}`);
  }

  // ------------------------------------------------------------------------------------------- stopping and ending

  /** The run has failed by the daemon's decision: recorded first, then stopped. */
  fault(reason: string): void {
    const { registry, log, graceMs } = this.#supervision;
    const row = this.row();
    if (row.faultRequested !== null || row.cancelRequestedAt !== null || this.#exit !== undefined) return;
    registry.update(this.runId, { faultRequested: reason });
    this.#silent = reason === "heartbeat_timeout";
    log.warn({ run_id: this.runId, attempt: this.attempt, reason }, "run is stopped");
    this.stop(graceMs);
  }

  /** Ends the worker's process group. What the run becomes is decided by what the registry says was asked. */
  stop(graceMs: number): void {
    const now = performance.now();
    if (this.#stop === undefined) this.#stop = new GroupStop(graceMs, now);
    else this.#stop.shorten(graceMs);
    this.#advanceStop(now);
    this.#supervision.wake();
  }

  /** A proxy that is connected reports the exit, everything before it delivered. */
  takeExit(report: ExitReport): void {
    this.notes.enterWaiting();
    this.#exit = { report, runFailed: this.notes.failed() };
    if (report.signal !== "" || report.code !== 0) {
      const { code, signal, lost } = report;
      this.#supervision.log.info({ run_id: this.runId, attempt: this.attempt, code, signal, lost }, "worker has ended");
    }
    this.#finish(performance.now());
  }

  /** Looks after the run; to be called every fraction of a second. @param mayReplace see ProxyKeeper.step */
  tick(now: number, mayReplace: boolean): void {
    if (this.#ended !== undefined) return;
    this.notes.enterWaiting();
    if (this.#exit !== undefined) return this.#finish(now);
    const reason = this.#stop === undefined
      ? this.clock.exceeded(this.#state, this.limits, this.#steps, now)
      : undefined;
    if (reason !== undefined) this.#exceed(reason, now);
    if (this.#stop !== undefined) this.#advanceStop(now);
    else this.#press(now);
    if (this.#session !== undefined || this.#ended !== undefined) return;
    if (this.#isExternal) this.#awaitExternal(now);
    else this.#keepProxy(now, mayReplace);
  }

  /** @throws `unavailable` when that cannot be entered; what kept it from being entered may have silenced the worker too. */
  #exceed(reason: string, now: number): void {
    try {
      this.fault(reason);
    } catch (error) {
      this.clock.output(now);
      throw error;
    }
  }

  #press(now: number): void {
    const backlog = this.#session === undefined ? 0 : this.journalSize - this.#session.position;
    const hold = this.backpressure.look(now, this.rate.perSecond(now), backlog);
    if (hold === undefined) return;
    this.#supervision.log.info({ run_id: this.runId, ...hold }, "backpressure");
    this.sendWish();
  }

  #advanceStop(now: number): void {
    const stop = this.#stop;
    if (stop === undefined || this.#ended !== undefined) return;
    if (this.#session === undefined && !this.#isExternal) {
      // A proxy that has not connected may be about to start the worker. Dead, it cannot; and what it did start is in a file.
      if (this.worker() === undefined) this.keeper.kill();
      else this.keeper.hurry(now, ABSENCE_MS.normal);
    }
    stop.advance(now, this.worker(), this.#link);
    const gone = stop.goneFor(now);
    const patienceMs = this.#silent ? SILENT_REPORT_MS : REPORT_MS;
    if (gone !== undefined && gone > patienceMs && this.#session !== undefined && !this.#isExternal) {
      this.#supervision.log.warn({ run_id: this.runId }, "the proxy does not report an exit and is replaced");
      this.closeSession("the exit was not reported in time");
      this.keeper.kill();
    }
  }

  /**
   * A proxy that somebody else starts is only waited for. A run that is stopped does not wait long: a proxy that comes
   * later finds the attempt over and ends its worker.
   */
  #awaitExternal(now: number): void {
    if (this.#stop === undefined) return;
    const patienceMs = this.#state === "HANDSHAKE" ? 0 : this.#supervision.graceMs + ABSENCE_MS.normal;
    if (now - this.#stop.startedAt < patienceMs) return;
    this.#ended = { type: "verdict", verdict: verdictOf(this.row(), undefined, this.notes.failed()) };
  }

  #keepProxy(now: number, mayReplace: boolean): void {
    const { log } = this.#supervision;
    const step = this.keeper.step(now, this.#state !== "HANDSHAKE", mayReplace);
    switch (step.do) {
      case "nothing":
        return;
      case "start_again":
        if (this.#stop === undefined) this.#ended = { type: "start_again" };
        else if (forbidWorker(this.files, this.attempt)) {
          this.#ended = { type: "verdict", verdict: verdictOf(this.row(), undefined, undefined) };
        }
        return;
      case "attach":
        return this.#replaceProxy(now);
      case "give_up": {
        // Proxies that die on a full disk will live when there is room again.
        if (!roomOf(this.files.directory).enough) return this.#replaceProxy(now);
        const exit = exitOf(this.files, this.attempt);
        if (exit === undefined && this.worker() !== undefined && groupAlive(this.worker()!)) {
          this.fault("proxy_lost");
          return;
        }
        log.error({ run_id: this.runId, exit }, "no proxy survives: the run ends with what is stored of its telemetry");
        const report = exit === undefined ? undefined : {
          ...exit,
          lost: false,
          finalPosition: 0,
          stderrTail: [],
          spawnError: "",
        };
        this.#exit = { report, runFailed: this.notes.failed() };
        return this.#finish(now);
      }
    }
  }

  #replaceProxy(now: number): void {
    const { log } = this.#supervision;
    const started = this.#supervision.attach(this);
    if (started === undefined) return this.keeper.couldNotStart(now);
    log.warn({ run_id: this.runId, attempt: this.attempt }, "the proxy is gone; another takes over");
    this.keeper.started(started.process, now, true);
  }

  /** Also of an attempt whose worker was never started. */
  dropCgroup(): void {
    const cgroup = cgroupOf(this.files.proxyFile(this.attempt));
    if (cgroup !== undefined) endCgroup(cgroup.path);
  }

  /** Whoever has left the worker's group is still in its cgroup. False while the kernel is ending them. */
  #cgroupEnded(): boolean {
    const cgroup = cgroupOf(this.files.proxyFile(this.attempt));
    if (cgroup === undefined) return true;
    if (oomKilled(cgroup)) this.#exit!.oom = { limitMb: cgroup.memoryMb };
    return endCgroup(cgroup.path);
  }

  /** Decided and committed when nothing of the group is left: until then the run can be cancelled. */
  #finish(now: number): void {
    const worker = this.worker();
    if (worker !== undefined && (this.#stop?.alive(worker) ?? groupAlive(worker))) {
      this.#stop ??= new GroupStop(this.#supervision.graceMs, now);
      this.#stop.advance(now, worker, undefined);
      this.#supervision.wake();
      return;
    }
    if (!this.#cgroupEnded()) return this.#supervision.wake();
    const { report, runFailed, oom } = this.#exit!;
    this.#ended = { type: "verdict", verdict: verdictOf(this.row(), report, runFailed, oom) };
    this.#supervision.settle(this);
  }
}

/**
 * A container that is started again has lost its journal: what it would deliver cannot follow what is stored.
 * @throws MosaicError `failed_precondition`
 */
function requireSameStart(row: RunRow, hello: ProxyHello): void {
  if (row.worker === null || hello.worker === null || row.worker.identity === hello.worker.identity) return;
  throw new MosaicError(
    "failed_precondition",
    `attempt ${row.attempt} of run ${row.runId} has a worker already, and this proxy comes with another`,
    { hint: "Start it as the run's next attempt (--attempt), or submit another run." },
  );
}

/** The daemon's core: what adapters may ask (src/dispatch/core/core.ts), answered by the registry, the dispatcher and the supervisor. */
import { boundReached, type Bounds, STANDARD_BOUNDS } from "../../base/load_limits.ts";
import { readConfig, violationsOf } from "../../config/config.ts";
import { expectedStepsOf, planOf, type RunPlan } from "../../config/plan.ts";
import { MetricsEvents } from "../attempt/metrics_events.ts";
import { Dispatcher } from "../dispatcher.ts";
import { localLauncher, type ProxyLauncher } from "../launch/local/proxy_process.ts";
import { Starter } from "../launch/local/starter.ts";
import { reapStrays } from "../launch/local/orphans.ts";
import { Supervisor } from "../attempt/supervisor.ts";
import type { SupervisedRun } from "../attempt/supervised_run.ts";
import { workerToken } from "../../wire/tokens.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Gpu } from "../../os/gpus.ts";
import { cpuCount, disk, loadAverage, memory } from "../../os/host_resources.ts";
import { type Layout, RunFiles } from "../../base/layout.ts";
import { isEnded, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Logger } from "../../base/log.ts";
import { Activity } from "../../observability/activity.ts";
import { type FileDescriptors, PLENTY, requireDescriptors } from "../../os/descriptors.ts";
import { dropUnkept, removeRunFiles, unkeptOf } from "../../registry/retention/files.ts";
import { SharedLook } from "../../registry/retention/shared_scan.ts";
import { queuedEvent } from "../../registry/effects.ts";
import { type DiskUsage, filesUsage } from "../../registry/retention/usage.ts";
import type { Registry } from "../../registry/registry.ts";
import type { ArtifactRow, RunFilter, RunRow, TransitionRow } from "../../registry/types.ts";
import type { EpisodeRecord, StepRecord } from "../../telemetry/batch.ts";
import type { TelemetryLog } from "../../telemetry/types.ts";
import type { Core, HostInfo, ProxyHello, ProxyLink, ProxySession, RegisterRequest, RunDetail } from "./core.ts";
import { heldTo, type RunCgroups } from "../../os/cgroups.ts";
import { cgroupOf } from "../../proxy/start_file.ts";
import { Artifacts } from "../../registry/artifacts/artifacts.ts";
import { acceptedProtocol } from "./protocol.ts";
import { Recovery } from "./boot_recovery.ts";
import { submit } from "./submission.ts";
import { TokenBucket } from "../../base/token_bucket.ts";

/** Longer than any stop takes. */
const RESET_WAIT_MS = 60_000;

export interface EngineOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  version: string;
  gpus: readonly Gpu[];
  /** Runs at once, and of them those that have not registered yet. */
  maxRuns: number;
  maxStarting: number;
  bounds?: Partial<Bounds>;
  graceSeconds: number;
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  /** What calls need. */
  auth?: "none" | "token";
  /** Undelivered journal bytes at which a worker is held; 0 is the proxy's default. */
  maxBacklogBytes: number;
  /** Where workers are held to their configs' limits; undefined: nowhere, they are advice. */
  cgroups?: RunCgroups | undefined;
  /** "full": what a submitter was told of survives the loss of power. */
  durability?: "normal" | "full";
  launcher?: ProxyLauncher;
  /** In a shortage nothing new is begun. */
  descriptors?: FileDescriptors;
  /** Somebody asks the daemon to stop. */
  onShutdown: (reason: string) => void;
}

export class Engine implements Core {
  readonly registry: Registry;
  readonly telemetry: TelemetryLog;
  readonly log: Logger;
  readonly activity = new Activity();
  readonly startedAt = Date.now();
  readonly version: string;
  readonly #options: EngineOptions;
  readonly #descriptors: FileDescriptors;
  readonly #supervisor: Supervisor;
  readonly #dispatcher: Dispatcher;
  readonly #artifacts: Artifacts;
  readonly #bounds: Bounds;
  readonly #submissions: TokenBucket;
  readonly #metrics: MetricsEvents;
  readonly #recovery: Recovery;
  readonly #diskUsage: SharedLook<DiskUsage>;
  readonly #deleting = new Set<string>();
  /** Runs of which an attempt has ended, while something is still made of its files. */
  readonly #tidying = new Map<string, Promise<void>>();
  #beforeDelete: (row: RunRow) => void = () => {};
  #addresses = { listen: "", http: "", socket: "" };

  constructor(options: EngineOptions) {
    this.registry = options.registry;
    this.telemetry = options.telemetry;
    this.log = options.log;
    this.version = options.version;
    this.#options = options;
    this.#descriptors = options.descriptors ?? PLENTY;
    this.#bounds = { ...STANDARD_BOUNDS, ...options.bounds };
    const { submitRate, submitBurst } = this.#bounds;
    this.#submissions = new TokenBucket(submitRate, submitBurst, performance.now());
    this.#recovery = new Recovery(options.log);
    this.#diskUsage = new SharedLook(async () => ({
      ...await filesUsage(options.layout),
      telemetryByRun: await options.telemetry.bytesOfRuns(),
    }));
    const starter = new Starter({
      ...options,
      descriptors: this.#descriptors,
      launcher: options.launcher ?? localLauncher,
      proxyTarget: () => `unix:${this.#addresses.socket}`,
      workerTarget: () => this.#addresses.listen,
    });
    this.#artifacts = new Artifacts({
      ...options,
      directoryOf: (row) => options.layout.runDir(row.baseDir, row.runId),
    });
    this.#metrics = new MetricsEvents(options);
    this.#supervisor = new Supervisor({
      ...options,
      onNoted: (row, event) => this.#artifacts.announced(row, event),
      onLook: (row) => {
        this.#artifacts.observe(row);
        this.#metrics.tell(row);
      },
      onEnded: (row, plan) => this.#tidyUp(row, plan),
      attach: (row, plan, files) => starter.attach(row, plan, files),
      placeFor: (priority) => this.#dispatcher.placeFor(priority),
      onRoom: (row) => this.#dispatcher.changed(row),
    });
    this.#dispatcher = new Dispatcher({
      ...options,
      starter,
      supervisor: this.#supervisor,
      recovering: () => {
        this.#recovery.look();
        return { gpus: this.#recovery.keptBack("gpus") > 0, runs: this.#recovery.keptBack("a place") };
      },
    });
  }

  /** Takes up what an earlier daemon has left; what cannot be taken up yet is tried again. To be called before proxies can connect. */
  recover(): void {
    this.#recovery.do({
      what: "the host's GPU slots",
      keepsBack: "gpus",
      work: () => this.registry.setGpuSlots(this.#options.gpus.map((gpu) => gpu.slot)),
    });
    for (const { runId, state } of [...this.registry.live(), ...this.registry.ofUnknownState()]) {
      this.#recovery.do({
        what: "run",
        runId,
        ...(RUNNING_STATES.includes(state) ? { keepsBack: "a place" } : {}),
        work: () => this.#takeUp(runId),
        setAside: (why) => this.#setAside(runId, why),
      });
    }
    if (this.#supervisor.size > 0) this.log.info({ runs: this.#supervisor.size }, "runs of an earlier daemon taken up");
  }

  /** Starts and supervises runs. To be called when clients and proxies can connect. */
  begin(addresses: { listen: string; http: string; socket: string }): void {
    this.#addresses = addresses;
    this.#supervisor.watch();
    this.#artifacts.recover();
    this.#reap();
    let token: string | undefined;
    do {
      const page = this.registry.list({ states: ["FAULTED"] }, { limit: 1000, token });
      for (const row of page.runs) {
        if (row.attempt >= row.maxAttempts && row.faultRequested !== "reset") continue;
        if (row.damaged.length > 0) continue;
        const work = () => {
          // By the time that it can be entered, the run may have been deleted.
          const now = this.registry.get(row.runId);
          if (now !== undefined && !this.#deleting.has(now.runId)) this.#supervisor.restartIfDue(now);
        };
        this.#recovery.do({ what: "the next attempt", runId: row.runId, work });
      }
      token = page.nextToken;
    } while (token !== undefined);
    this.#dispatcher.start();
  }

  /** As it is by now: while that waited, somebody may have cancelled the run, and so taken it up. */
  #takeUp(runId: string): void {
    const row = this.registry.get(runId);
    if (row === undefined || (isEnded(row.state) && !row.damaged.includes("state"))) return;
    requireWhole(row);
    if (RUNNING_STATES.includes(row.state)) this.#supervised(row);
    else if (row.cancelRequestedAt !== null) this.#cancelWaiting(row);
  }

  /** A run that cannot be supervised has failed; its proxy is sent away when it asks, and its group is ended. */
  #setAside(runId: string, why: unknown): void {
    const reason = `recovery_failed: ${messageOf(why)}`;
    const hint = why instanceof MosaicError ? why.hint ?? null : null;
    const row = this.registry.apply(runId, { type: "failed", reason }, { hint }, () => ({
      kind: "failed",
      data: { reason, hint },
    }));
    this.#dispatcher.changed(row);
    if (this.#addresses.socket !== "") this.#reap();
  }

  #reap(): void {
    const attempt = (runId: string) =>
      this.#recovery.waits(runId) ? this.registry.get(runId)?.attempt : this.#supervisor.get(runId)?.attempt;
    reapStrays(this.#options.layout, attempt, this.log);
    this.#options.cgroups?.sweep((runId, n) => this.registry.get(runId) !== undefined && attempt(runId) !== n);
  }

  /** Starts nothing more; runs and their proxies live on. */
  async close(): Promise<void> {
    await this.#dispatcher.close();
    this.#supervisor.close();
    await this.#artifacts.close();
  }

  #tidyUp(row: RunRow, plan: RunPlan): void {
    const before = this.#tidying.get(row.runId);
    const tidying = Promise.all([before, this.#afterEnd(row, plan)]).then(() => {}, (error) => {
      // A deletion waits for this, and is not to fail for it.
      this.log.error({ run_id: row.runId, error: messageOf(error) }, "an ended run's files are not tidied up");
    }).then(() => {
      if (this.#tidying.get(row.runId) === tidying) this.#tidying.delete(row.runId);
    });
    this.#tidying.set(row.runId, tidying);
  }

  /** What is made of an ended attempt's files, beside everything else. */
  async #afterEnd(row: RunRow, plan: RunPlan): Promise<void> {
    this.#metrics.forget(row.runId);
    await this.#artifacts.finish(row);
    const unkept = unkeptOf(plan.artifacts);
    if (row.state === "FAULTED" || unkept.length === 0) return;
    // It may have been given another attempt meanwhile, which needs them.
    const now = this.registry.get(row.runId);
    if (now?.attempt !== row.attempt || !isEnded(now.state)) return;
    try {
      try {
        await dropUnkept(this.#options.layout.runDir(row.baseDir, row.runId), unkept);
      } finally {
        this.#diskUsage.forget();
      }
      // What is gone is no artifact any more, and no summary names it.
      await this.#artifacts.finish(row, unkept);
    } catch (error) {
      this.log.warn({ run_id: row.runId, error: messageOf(error) }, "files that are not to be kept stay for now");
    }
  }

  // ---------------------------------------------------------------------------------------------------- submitting

  submit(configJson: string, runId = ""): { runId: string; digest: string } {
    const arrived = performance.now();
    let result = "rejected";
    try {
      requireDescriptors(this.#descriptors, "take a run");
      this.#admitSubmission(arrived);
      const { row, fresh } = submit(configJson, runId, {
        registry: this.registry,
        layout: this.#options.layout,
        totalSlots: this.#options.gpus.length,
        durable: this.#options.durability === "full",
        queueLength: this.#dispatcher.queueLength,
        placeFor: (priority) => this.#dispatcher.placeFor(priority),
        maxQueue: this.#bounds.maxQueue,
      });
      result = fresh ? "accepted" : "running_already";
      return this.#submitted(row, fresh);
    } finally {
      this.activity.submissions.add(result);
      this.activity.submitSeconds.observe((performance.now() - arrived) / 1000);
    }
  }

  /** Reading a config and writing a run down takes this thread's time, which belongs to all runs. */
  #admitSubmission(now: number): void {
    const waitMs = this.#submissions.take(now);
    if (waitMs === undefined) return;
    const { submitRate, submitBurst } = this.#bounds;
    throw boundReached(
      "submitRate",
      submitRate,
      `more submissions a second than this daemon takes (after ${submitBurst} at once, --submit-burst)`,
      `Submit again in ${(waitMs / 1000).toFixed(2)} s`,
      waitMs,
    );
  }

  #submitted(row: RunRow, fresh: boolean): { runId: string; digest: string } {
    if (fresh) {
      this.log.info({ run_id: row.runId, name: row.name, digest: row.digest }, "run submitted");
      this.#dispatcher.changed(row);
    }
    return { runId: row.runId, digest: row.digest };
  }

  validate(
    configJson: string,
  ): { violations: { path: string; message: string }[]; digest: string; canonicalJson: string } {
    const violations = violationsOf(configJson);
    if (violations.length > 0) return { violations, digest: "", canonicalJson: "" };
    const { digest, canonicalJson } = readConfig(configJson);
    return { violations: [], digest, canonicalJson };
  }

  // ------------------------------------------------------------------------------------------------------- looking

  detail(row: RunRow): RunDetail {
    const run = this.#supervisor.get(row.runId);
    const place = row.state === "INIT" ? this.#dispatcher.placeOf(row.runId) : undefined;
    const telemetry = this.telemetry.summary(row.runId);
    return {
      row,
      queuePosition: place?.position ?? 0,
      waitingFor: place?.waitingFor ?? "",
      directory: this.#options.layout.runDir(row.baseDir, row.runId),
      maxSteps: expectedStepsOf(row.configJson),
      telemetry: {
        ...telemetry,
        journalSize: Math.max(run?.journalSize ?? 0, telemetry.journalPosition),
        stepsPerSecond: row.state === "EXECUTING" ? run?.rate.perSecond(performance.now()) ?? 0 : 0,
      },
    };
  }

  heldTo(row: RunRow): string[] {
    const files = new RunFiles(this.#options.layout.runDir(row.baseDir, row.runId), row.workerId);
    return heldTo(cgroupOf(files.proxyFile(row.attempt)));
  }

  list(
    filter: RunFilter,
    page: { limit: number; token?: string },
  ): { runs: RunDetail[]; nextToken: string | undefined; total: number } {
    const { runs, nextToken } = this.registry.list(filter, page);
    return { runs: runs.map((row) => this.detail(row)), nextToken, total: this.registry.count(filter) };
  }

  transitions(runId: string): TransitionRow[] {
    return this.registry.transitions(runId);
  }

  artifacts(runId: string): ArtifactRow[] {
    return this.registry.artifacts(runId);
  }

  logFile(row: RunRow, stream: "stdout" | "stderr"): string {
    const files = new RunFiles(this.#options.layout.runDir(row.baseDir, row.runId), row.workerId);
    // An attempt that waits has written nothing yet.
    const attempt = row.state === "INIT" && row.attempt > 1 ? row.attempt - 1 : row.attempt;
    return stream === "stdout" ? files.stdout(attempt) : files.stderr(attempt);
  }

  host(): HostInfo {
    const { layout, gpus } = this.#options;
    const names = new Map(gpus.map((gpu) => [gpu.slot, gpu.name]));
    const { total, available } = memory();
    const space = disk(layout.stateDir);
    return {
      version: this.version,
      pid: Deno.pid,
      startedAt: this.startedAt,
      stateDir: layout.stateDir,
      ...this.#addresses,
      gpus: this.registry.gpuSlots().map(({ slot, runId }) => ({ slot, runId, name: names.get(slot) ?? "" })),
      cpus: cpuCount(),
      loadAverage: loadAverage(),
      memoryBytes: total,
      memoryAvailableBytes: available,
      diskBytes: space.total,
      diskAvailableBytes: space.available,
      telemetryBytes: this.telemetry.fileBytes(),
      rssBytes: Deno.memoryUsage().rss,
      runsByState: this.registry.countByState(),
    };
  }

  // --------------------------------------------------------------------------------------------------- controlling

  cancel(runId: string, options: { graceSeconds?: number; reason?: string } = {}): RunRow {
    const row = this.registry.require(runId);
    if (isEnded(row.state)) return row;
    if (row.state === "INIT") {
      this.log.info({ run_id: runId, reason: options.reason ?? "user_cancel" }, "run is cancelled");
      return this.#cancelWaiting(row, { cancelRequestedAt: Date.now(), cancelReason: options.reason ?? "user_cancel" });
    }
    // Durable before the first signal, so that a daemon that dies now leaves a cancellation behind and not a lost worker.
    const requested = row.cancelRequestedAt !== null ? row : this.registry.update(runId, {
      cancelRequestedAt: Date.now(),
      cancelReason: options.reason ?? "user_cancel",
    });
    this.log.info({ run_id: runId, reason: requested.cancelReason }, "run is cancelled");
    this.#supervised(requested).stop((options.graceSeconds ?? this.#options.graceSeconds) * 1000);
    return this.registry.require(runId);
  }

  #cancelWaiting(row: RunRow, request: Pick<RunRow, "cancelRequestedAt" | "cancelReason"> = row): RunRow {
    const { cancelRequestedAt, cancelReason } = request;
    const reason = cancelReason ?? "user_cancel";
    const patch = { cancelRequestedAt, cancelReason };
    const ended = this.registry.apply(row.runId, { type: "cancelled", reason }, patch, () => ({
      kind: "cancelled",
      data: { reason },
    }));
    this.#dispatcher.changed(ended);
    return ended;
  }

  pause(runId: string): RunRow {
    const row = this.#requireRunning(runId, "paused");
    this.registry.update(runId, { pauseRequested: true });
    this.#supervised(row).sendWish();
    return this.registry.require(runId);
  }

  resume(runId: string): RunRow {
    const row = this.#requireRunning(runId, "resumed");
    this.registry.update(runId, { pauseRequested: false });
    this.#supervised(row).sendWish();
    return this.registry.require(runId);
  }

  throttle(runId: string, maxRateHz: number): RunRow {
    if (!Number.isSafeInteger(maxRateHz) || maxRateHz < 0) {
      throw new MosaicError(
        "invalid_argument",
        `max_rate_hz is ${maxRateHz}; it must be a whole number, 0 for no limit`,
      );
    }
    const row = this.registry.require(runId);
    if (isEnded(row.state)) throw ended(row, "throttled");
    const updated = this.registry.update(runId, { maxRateHz });
    this.#supervisor.get(runId)?.throttled();
    return updated;
  }

  retry(runId: string): RunRow {
    const row = this.registry.require(runId);
    if (!isEnded(row.state)) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${row.state}; only a run that has ended is retried`,
        {
          hint: `To start it anew: mosaic reset ${runId}`,
        },
      );
    }
    return this.#again(row, "by hand", this.#supervisor.checkpointOf(row, planOf(row.configJson)) ?? null);
  }

  async reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    const row = this.registry.require(runId);
    const resumeFrom = fromCheckpoint === "" ? null : this.#checkpointAt(row, fromCheckpoint);
    if (isEnded(row.state)) return this.#again(row, "reset", resumeFrom);
    if (row.state === "INIT") return this.registry.update(runId, { resumeFrom });
    if (row.cancelRequestedAt !== null || row.faultRequested !== null) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is being stopped (${row.faultRequested ?? "cancelled"})`,
        {
          hint: "Reset it when it has ended.",
        },
      );
    }
    this.registry.update(runId, { resumeFrom });
    this.#supervised(row).fault("reset");
    const enough = AbortSignal.timeout(RESET_WAIT_MS);
    for (let seq = this.registry.transitionHead(); !enough.aborted; seq = this.registry.transitionHead()) {
      const now = this.registry.require(runId);
      if (now.attempt > row.attempt || isEnded(now.state)) break;
      await this.registry.waitTransitionsBeyond(seq, enough);
    }
    return this.registry.require(runId);
  }

  /** An artifact's path, as it is listed, begins in the run's directory; any other is for the worker to find. */
  #checkpointAt(row: RunRow, path: string): string {
    const listed = this.registry.artifacts(row.runId).some((a) => a.path === path || a.path.startsWith(`${path}/`));
    return listed ? `${this.#options.layout.runDir(row.baseDir, row.runId)}/${path}` : path;
  }

  async delete(runId: string): Promise<{ freedBytes: number }> {
    const row = this.registry.require(runId);
    if (!isEnded(row.state)) {
      throw new MosaicError("failed_precondition", `run ${runId} is ${row.state} and cannot be deleted`, {
        hint: `Cancel it first: mosaic cancel ${runId}`,
      });
    }
    if (row.damaged.includes("state")) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} cannot be deleted: its state in the registry cannot be read, so that it may still be running`,
        { hint: "Stop the daemon, run mosaic doctor --repair, start it again, and delete the run." },
      );
    }
    // Its row was changed by another hand, or its next attempt could not be entered yet: its files are still needed.
    if (this.#supervisor.get(runId) !== undefined) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${row.state} on record, but is still looked after, and cannot be deleted yet`,
        { hint: "Try again when it has settled; if it does not, restart the daemon, and delete the run then." },
      );
    }
    this.#refuseDeleted(runId);
    this.#deleting.add(runId);
    this.#beforeDelete(row);
    let freedBytes: number;
    try {
      // What is still being written there would keep its directory from going.
      await this.#tidying.get(runId);
      freedBytes = (await removeRunFiles(this.#options.layout, runId)).freedBytes;
      freedBytes += await this.telemetry.delete(runId);
      // Last: while the row is there, a deletion that was cut off can be repeated.
      this.registry.delete(runId);
    } finally {
      this.#deleting.delete(runId);
      // Some of it may be gone also where the rest could not be deleted.
      this.#diskUsage.forget();
    }
    this.log.info({ run_id: runId, name: row.name }, "run deleted");
    return { freedBytes };
  }

  diskUsage(): Promise<DiskUsage> {
    return this.#diskUsage.get();
  }

  /** What is there now, for whoever deletes by it: not what somebody else found a while ago. */
  diskUsageNow(): Promise<DiskUsage> {
    this.#diskUsage.forget();
    return this.#diskUsage.get();
  }

  /** `listener` is called with each run that is about to be deleted, while everything of it is there. There is one. */
  beforeDelete(listener: (row: RunRow) => void): void {
    this.#beforeDelete = listener;
  }

  /** While its files and telemetry go, a run cannot begin anew. */
  #refuseDeleted(runId: string): void {
    if (!this.#deleting.has(runId)) return;
    throw new MosaicError("failed_precondition", `run ${runId} is being deleted`);
  }

  #again(row: RunRow, reason: string, resumeFrom: string | null): RunRow {
    this.#refuseDeleted(row.runId);
    requireWhole(row);
    const waiting = this.registry.apply(row.runId, { type: "retry", reason }, {
      resumeFrom,
      notBefore: null,
      maxAttempts: Math.max(row.maxAttempts, row.attempt + 1),
    }, (waiting) => queuedEvent(waiting, this.#dispatcher.placeFor(waiting.priority)));
    this.log.info({ run_id: row.runId, attempt: waiting.attempt, resume_from: resumeFrom }, "run gets another attempt");
    this.#dispatcher.changed(waiting);
    return waiting;
  }

  #requireRunning(runId: string, done: string): RunRow {
    const row = this.registry.require(runId);
    if (isEnded(row.state)) throw ended(row, done);
    if (row.state === "INIT") {
      throw new MosaicError("failed_precondition", `run ${runId} waits to be started and cannot be ${done}`);
    }
    return row;
  }

  /** The supervision of a run that has processes. */
  #supervised(row: RunRow): SupervisedRun {
    if (this.#supervisor.get(row.runId) === undefined) this.#supervisor.adopt(row);
    return this.#supervisor.get(row.runId)!;
  }

  // ------------------------------------------------------------------------------------------- workers and proxies

  registerWorker(request: RegisterRequest): { acceptedVersion: string; sessionToken: string } {
    if (request.runId === "") throw new MosaicError("invalid_argument", "run_id is empty");
    const row = this.registry.require(request.runId);
    if (isEnded(row.state)) throw new MosaicError("failed_precondition", `run ${row.runId} is already terminated`);
    const acceptedVersion = acceptedProtocol(request.protoVersion);
    const run = this.#supervised(this.#requireRunning(request.runId, "registered"));
    // The proxy registers, and a worker that was given --grpc registers too: neither may undo the other.
    const sessionToken = row.sessionToken ?? crypto.randomUUID().replaceAll("-", "");
    const byProxy = request.workerKind === "telemetry_proxy" && row.workerKind !== null;
    this.registry.update(row.runId, {
      sessionToken,
      ...(byProxy ? {} : {
        workerKind: request.workerKind,
        protoVersion: acceptedVersion,
        schemaId: request.schemaId,
        schemaVersion: request.schemaVersion,
      }),
      supportsPause: row.supportsPause || request.supportsPause,
      supportsCheckpoint: row.supportsCheckpoint || request.supportsCheckpoint,
    });
    this.#supervisor.apply(run, { type: "registered" });
    run.alive();
    // A worker that registers is not told its proxy's.
    return { acceptedVersion, sessionToken: workerToken(sessionToken) };
  }

  heartbeat(runId: string): void {
    this.registry.require(runId);
    this.#supervisor.get(runId)?.alive();
  }

  publish(runId: string, steps: StepRecord[], episodes: EpisodeRecord[]): void {
    const row = this.registry.require(runId);
    const run = this.#supervisor.get(runId);
    if (run === undefined || row.state === "HANDSHAKE") {
      throw new MosaicError("failed_precondition", `run ${runId} is ${row.state}: RegisterWorker comes first`);
    }
    this.telemetry.append(runId, row.attempt, steps, episodes);
    run.published(steps.length);
  }

  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    return this.#supervisor.openProxy(hello, link);
  }

  readerStarved(runId: string, starved: boolean): void {
    this.#supervisor.get(runId)?.backpressure.starved(starved);
  }

  requestShutdown(reason: string): void {
    this.log.info({ reason }, "asked to stop");
    this.#options.onShutdown(reason);
  }
}

/** A row that is damaged in one place is trusted in none. @throws MosaicError `failed_precondition` */
function requireWhole({ runId, damaged }: RunRow): void {
  if (damaged.length === 0) return;
  throw new MosaicError(
    "failed_precondition",
    `the row of run ${runId} in the registry is damaged (${damaged.join(", ")} cannot be read)`,
    { hint: "Stop the daemon, run mosaic doctor --repair, start it again, and retry the run." },
  );
}

function ended(row: RunRow, done: string): MosaicError {
  return new MosaicError("failed_precondition", `run ${row.runId} has ended (${row.state}) and cannot be ${done}`);
}

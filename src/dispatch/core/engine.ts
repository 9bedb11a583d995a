/**
 * The daemon's core: connects its parts, and implements the adapters' interface (core.ts) with
 * them.
 */
import type { AlertRule } from "../../config/alerts.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { type Bounds, STANDARD_BOUNDS } from "../../base/load_limits.ts";
import type { Layout } from "../../base/layout.ts";
import type { SlurmFields } from "../../config/schema.ts";
import type { Logger } from "../../base/log.ts";
import { withSlurmDefaults } from "../../config/prepare.ts";
import { Activity } from "../../observability/activity.ts";
import type { OwnListeners } from "../../observability/webhooks/own_listeners.ts";
import type { WorkerUserOption } from "../../os/rights/worker_user.ts";
import type { RunCgroups } from "../../os/processes/cgroups.ts";
import {
  type FileDescriptors,
  NEVER_SHORT,
  requireDescriptors,
} from "../../os/processes/descriptors.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import type { SharePolicy } from "../gpus/sharing.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import { readRecord } from "../../os/files/untrusted.ts";
import { logTimesOf } from "../../journal/log_times.ts";
import { MergedLog } from "../../journal/merged_log.ts";
import { type LogFile, openLog } from "../../journal/packed_log.ts";
import { planIfReadable } from "../../config/plan.ts";
import { Artifacts } from "../../registry/artifacts/artifacts.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { Registry } from "../../registry/registry.ts";
import type { DiskUsage } from "../../registry/retention/disk_usage.ts";
import { KEEP_DELETED_MS } from "../../registry/retention/retention.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import type {
  EpisodeRecord,
  StepRecord,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import { rendered, stepsOf } from "../../journal/thin_log.ts";
import type { TelemetryLog, TelemetryReader } from "../../telemetry/telemetry_log.ts";
import { Objectives } from "../../records/objective.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import { MetricsEvents } from "../attempt/records/metrics_events.ts";
import { Supervisor } from "../attempt/supervisor.ts";
import { Dispatcher } from "../queue/dispatcher.ts";
import type { Shares } from "../queue/shares.ts";
import { Preemptions } from "../queue/preemptions.ts";
import { DiskQuota } from "../queue/disk_quota.ts";
import { Users } from "../queue/users.ts";
import { Deadlines } from "../queue/run_deadlines.ts";
import { Turns, wishesOf } from "../queue/predecessors.ts";
import { hosts } from "../launch/hosts.ts";
import type { Launcher } from "../launch/engine/launcher.ts";
import { localLauncher, type ProxyLauncher } from "../launch/local/proxy_process.ts";
import { Placer } from "../launch/placed/placer.ts";
import type { Rank } from "../launch/placed/ranks.ts";
import { newSessionToken } from "../launch/engine/session_token.ts";
import { requireFreeSpace, Starter } from "../launch/starter.ts";
import { Boot } from "./boot.ts";
import { Recovery } from "./boot_recovery.ts";
import { Cleanup } from "./cleanup.ts";
import { Control } from "./control.ts";
import type {
  Core,
  Edit,
  HostInfo,
  LogOf,
  ObservedFile,
  RegisterRequest,
  RunDetail,
  RunQueryPage,
  WholeRun,
} from "./core.ts";
import type { ProxyHello, ProxyLink, ProxySession } from "../attempt/state/connected_proxy.ts";
import { type ImportOptions, importRun } from "./imports.ts";
import { queryRuns, runFits, type RunQuery } from "./run_query.ts";
import {
  type CodeToRecord,
  recordCode,
  type RecordedCode,
  recordedCode,
} from "../code/run_code.ts";
import { Observing } from "./observe.ts";
import { parametersOfRun, type RunParameter } from "./run_parameters.ts";
import { sameToken } from "../../wire/tokens.ts";
import { workerToken } from "../../base/session_tokens.ts";
import { afterText } from "../../config/queue_fields.ts";
import { predecessor } from "../queue/submission.ts";
import { Lineage } from "../lineage/lineage.ts";
import { USE_KIND } from "../attempt/records/worker_events.ts";
import { Submissions } from "../queue/submissions.ts";
import type { SweepJson } from "../../sweeps/results/sweep_json.ts";
import type { Sweeps } from "../../sweeps/sweeps.ts";
import { Views } from "./views.ts";
import { WorkerCalls } from "./worker_calls.ts";
import type { Auth } from "../../wire/address/tls.ts";

/** Output that waits to be stored: more than what is usually in progress. */
const BACKLOG_BYTES = 64 << 10;

export interface EngineOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  version: string;
  gpus: GpuPool;
  /** Bounds on runs at once, and on those of them that have not registered yet. */
  maxRuns: number;
  maxStarting: number;
  /** Where runs that share cards go. */
  sharing?: SharePolicy | undefined;
  /** Fair shares between the owners of runs; undefined: first come, first served. */
  shares?: Shares | undefined;
  /** GPU slots of one owner at a time; undefined: no limit. */
  maxGpusPerUser?: number | undefined;
  /** Running runs of one owner; undefined: no limit. */
  maxRunsPerUser?: number | undefined;
  /** Bytes of one owner's runs; undefined: no limit. */
  maxDiskPerUser?: number | undefined;
  /** How long a run that is to give way may take to save a checkpoint. */
  preemptCheckpointMs?: number;
  bounds?: Partial<Bounds>;
  graceSeconds: number;
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  /** Rules for every run, in addition to its own. */
  alerts?: readonly AlertRule[];
  /** The metric by which runs are judged that choose none, such as `eval/reward:max`. */
  objectives?: readonly string[] | undefined;
  /** Authentication of calls. */
  auth?: Auth;
  /** A TCP listener requires no token from processes of the daemon's user. */
  openToOwnUser?: boolean;
  /** This process may start others as any user. */
  isRoot?: boolean;
  /** The user of all workers; undefined: each config's own. */
  workerUser?: WorkerUserOption | undefined;
  /** How long a deleted run stays in the trash, milliseconds; 0: it is removed at once. */
  keepDeletedMs?: number;
  /** Undelivered journal bytes at which a worker is held; 0 is the proxy's default. */
  maxBacklogBytes: number;
  /** Enforces the limits of configs; undefined: the limits are advice. */
  cgroups?: RunCgroups | undefined;
  /** "full": acknowledged submissions survive a power failure. */
  durability?: "normal" | "full";
  launcher?: ProxyLauncher;
  /** Engines that place runs elsewhere. */
  launchers?: readonly Launcher[];
  /** Defaults of metadata.slurm for runs that are submitted from now on. */
  slurm?: SlurmFields;
  /**
   * Address and certificate authority that proxies on other hosts use; without `target`, the
   * address of `--http`.
   */
  advertise?: { target?: string | undefined; ca?: string | undefined };
  /** Interval of queries of an engine, milliseconds. */
  queryMs?: { least: number; most: number };
  /** How long a node must have answered again before its processes count as ended, milliseconds. */
  settleMs?: number | undefined;
  /** In a shortage nothing new is started. */
  descriptors?: FileDescriptors;
  /** Whether the state directory at its path is still this daemon's. Default: it is. */
  holdsPlace?: () => boolean;
  /** Somebody asks the daemon to stop. */
  onShutdown: (reason: string) => void;
}

/** Patience with calls of an engine when the daemon stops. */
const ENGINE_CLOSE_MS = 1000;
/** A list is made in turns with other work. */
const LIST_TURN_MS = 10;

export class Engine implements Core {
  readonly runs: RunReader;
  readonly records: TelemetryReader;
  readonly log: Logger;
  readonly activity = new Activity();
  readonly startedAt = Date.now();
  readonly version: string;
  readonly keepDeletedMs: number;
  readonly maxDiskPerUser: number | undefined;
  readonly #options: EngineOptions;
  readonly #supervisor: Supervisor;
  readonly #dispatcher: Dispatcher;
  readonly #disk: DiskQuota;
  readonly #placer: Placer;
  readonly #deadlines: Deadlines;
  readonly #artifacts: Artifacts;
  readonly lineage: Lineage;
  readonly #boot: Boot;
  readonly #cleanup: Cleanup;
  #testMessages: Core["testMessages"] | undefined;
  readonly #imports: ImportOptions;
  readonly #control: Control;
  readonly #observing: Observing;
  readonly #submissions: Submissions;
  readonly #views: Views;
  readonly #workerCalls: WorkerCalls;
  readonly #objectives: Objectives;
  #addresses = { listen: "", http: "", tls: false, socket: "" };
  #own: OwnListeners | undefined;
  #trackingAddress = "";
  #sweeps:
    | Promise<{ sweeps: Sweeps; summary: typeof import("../../sweeps/results/summary.ts") }>
    | undefined;

  constructor(options: EngineOptions) {
    const { registry, telemetry, log, layout, gpus } = options;
    this.#options = options;
    this.runs = registry;
    this.records = telemetry;
    this.log = log;
    this.version = options.version;
    this.keepDeletedMs = options.keepDeletedMs ?? KEEP_DELETED_MS;
    this.maxDiskPerUser = options.maxDiskPerUser;
    const descriptors = options.descriptors ?? NEVER_SHORT;
    const metrics = new MetricsEvents(options);
    const recovery = new Recovery(log);
    const placeFor = (priority: number) => this.#dispatcher.placeFor(priority);
    const onChanged = (row: RunRow) => {
      if (!this.#placer.changed(row)) this.#dispatcher.changed(row);
      // A run that either of them holds back may wait for it.
      else this.#dispatcher.wake();
      this.#placer.otherChanged();
      this.#deadlines.changed(row);
    };
    const { local, hostOf, launcherOf, admit } = hosts({
      ...options,
      launchers: options.launchers ?? [],
      placer: () => this.#placer,
      launcher: options.launcher ?? localLauncher,
      proxyTarget: () => `unix:${this.#addresses.socket}`,
      workerTarget: () => this.#addresses.listen,
      trackingAddress: () => this.#trackingAddress,
    });
    this.#artifacts = new Artifacts({
      ...options,
      directoryOf: (row) => layout.runDir(row.baseDir, row.runId),
      cwdOf: (row) => planIfReadable(row.configJson)?.worker.cwd ?? "",
      keepVideosOf: (row) => planIfReadable(row.configJson)?.artifacts.keepVideos ?? null,
    });
    this.lineage = new Lineage({
      registry,
      log,
      directoryOf: (row) => layout.runDir(row.baseDir, row.runId),
    });
    this.#supervisor = new Supervisor({
      ...options,
      hostOf,
      placeFor,
      onChanged,
      onFileNamed: (row, event) =>
        event.kind === USE_KIND
          ? this.lineage.used(row, event)
          : this.#artifacts.announced(row, event),
      maxUploadBytes: { ...STANDARD_BOUNDS, ...options.bounds }.maxUploadBytes,
      onFilesDue: (row) => {
        this.#artifacts.observe(row);
        metrics.update(row);
      },
      onEnded: (row, plan) => {
        metrics.forget(row.runId);
        this.#cleanup.attemptEnded(row, plan);
      },
    });
    const cardMemoryMb = () => options.gpus.mostMemoryMb;
    const users = new Users({ ...options, cardMemoryMb });
    this.#disk = new DiskQuota({
      maxBytes: options.maxDiskPerUser,
      measure: () => this.#cleanup.diskUsage(),
      owners: () => registry.owners(),
      onChanged: () => this.#dispatcher.wake(),
      log: options.log,
    });
    const turns = new Turns({
      registry,
      log,
      isRepeated: (row) => this.#supervisor.isRepeated(row),
    });
    const starter = new Starter({ ...options, hostOf, descriptors });
    this.#placer = new Placer({
      ...options,
      launcherOf,
      order: (row, plan, files) => {
        requireDescriptors(descriptors, "place a run");
        requireFreeSpace(layout.baseDir(row.baseDir));
        // A token of this attempt, because that identifies a job whose attempt is over.
        const placed = row.sessionToken !== null
          ? row
          : registry.update(row.runId, { sessionToken: newSessionToken() });
        const { target = this.#addresses.http, ca } = options.advertise ?? {};
        const nodeDirectory = launcherOf(plan)?.nodeDirectory?.(plan);
        return local.placed(placed, plan, files, { target, tls: tlsOf(target, ca), nodeDirectory });
      },
      turn: (row) => {
        const wishes = wishesOf(row);
        const turn = wishes === null ? { t: "due" as const } : turns.of(wishes);
        if (turn.t === "over") onChanged(turns.end(row.runId, turn));
        return turn;
      },
      begin: (row) => starter.begin(row, this.#supervisor),
      onEnded: (row) => this.#placer.changed(row),
    });
    this.#dispatcher = new Dispatcher({
      ...options,
      starter,
      supervisor: this.#supervisor,
      placer: this.#placer,
      turns,
      users,
      disk: this.#disk,
      preemptions: new Preemptions({
        ...options,
        supervisor: this.#supervisor,
        ownerOf: (row) => users.ownerOf(row),
        troubleOf: (row) => starter.troubleOf(row),
        wake: () => this.#dispatcher.wake(),
        checkpointMs: options.preemptCheckpointMs,
      }),
      onEnded: onChanged,
      recovering: () => {
        recovery.retry();
        return { gpus: recovery.keptBack("gpus") > 0, runs: recovery.keptBack("a place") };
      },
    });
    const parts = {
      registry,
      telemetry,
      log,
      layout,
      gpus,
      supervisor: this.#supervisor,
      dispatcher: this.#dispatcher,
      placer: this.#placer,
    };
    this.#deadlines = new Deadlines({
      ...parts,
      wake: () => {
        this.#dispatcher.wake();
        this.#placer.otherChanged();
      },
    });
    this.#imports = { registry, telemetry, log, layout };
    this.#cleanup = new Cleanup({
      ...parts,
      artifacts: this.#artifacts,
      isSupervised: (runId) => this.#supervisor.get(runId) !== undefined,
    });
    this.#control = new Control({
      ...parts,
      graceSeconds: options.graceSeconds,
      placeFor,
      onChanged,
      refuseDeleted: (runId) => this.#cleanup.refuseDeleted(runId),
    });
    this.#observing = new Observing(parts);
    this.#boot = new Boot({
      ...parts,
      host: local,
      recovery,
      control: this.#control,
      cleanup: this.#cleanup,
    });
    this.#submissions = new Submissions({
      ...parts,
      onChanged,
      activity: this.activity,
      descriptors,
      bounds: { ...STANDARD_BOUNDS, ...options.bounds },
      gpus,
      admit: (plan, owner) => {
        if (plan.webhook !== null) this.#own?.refuseNamed(plan.webhook.url, "metadata.webhook");
        admit(plan, owner);
      },
      findArtifact: (artifact) => this.lineage.find(artifact),
      slurm: options.slurm ?? {},
      maxGpusPerUser: options.maxGpusPerUser ?? Infinity,
      disk: this.#disk,
      durable: options.durability === "full",
    });
    this.#views = new Views({
      ...parts,
      objectives: this.#objectives = new Objectives(options.objectives),
      daemon: () => ({ version: this.version, startedAt: this.startedAt, ...this.#addresses }),
    });
    this.#workerCalls = new WorkerCalls({ ...parts, control: this.#control });
  }

  // ------------------------------------------------------------------------------------------
  // beginning and closing

  /** Recovers the runs of an earlier daemon. Call it before proxies can connect. */
  recover(): void {
    this.#enterDueSlurmDefaults();
    this.#placer.recover();
    this.#boot.recover();
  }

  /** Of runs that an earlier version has taken. */
  #enterDueSlurmDefaults(): void {
    const { registry, slurm = {} } = this.#options;
    registry.enterDueSlurmDefaults((config) => withSlurmDefaults(config, slurm));
  }

  /** A run is being started, or output of one waits to be stored. */
  busy(): boolean {
    if ((this.runs.countByState().HANDSHAKE ?? 0) > 0) return true;
    return [...this.activity.proxies].some(({ journalSize, position }) =>
      journalSize - position > BACKLOG_BYTES
    );
  }

  /**
   * Starts and supervises runs. Call it when clients and proxies can connect.
   * @param trackingAddress where workers can reach the API over HTTP without TLS; "": nowhere
   */
  begin(
    addresses: { listen: string; http: string; tls?: boolean; socket: string; own?: OwnListeners },
    trackingAddress = "",
  ): void {
    this.#addresses = { ...addresses, tls: addresses.tls === true };
    this.#own = addresses.own;
    this.#trackingAddress = trackingAddress;
    this.#supervisor.watch();
    this.#artifacts.recover();
    this.#boot.begin();
    this.#dispatcher.start();
    this.#disk.start();
    this.#placer.start();
    this.#deadlines.start();
    if (this.#options.registry.sweeps.unfinished().length > 0) {
      this.#sweepParts().catch((error) =>
        this.log.error({ error: messageOf(error) }, "sweeps do not continue")
      );
    }
  }

  /** Starts nothing more; runs and their proxies continue. */
  async close(): Promise<void> {
    // Failed to load: it never began.
    const sweeps = await this.#sweeps?.catch(() => undefined);
    await sweeps?.sweeps.close();
    this.#disk.close();
    this.#boot.close();
    this.#deadlines.close();
    this.#cleanup.close();
    // An engine's tools wait long for a controller that is away.
    const late = setTimeout(
      () => this.#options.launchers?.forEach((launcher) => launcher.close?.()),
      ENGINE_CLOSE_MS,
    );
    await this.#dispatcher.close();
    await this.#placer.close();
    clearTimeout(late);
    this.#supervisor.close();
    await this.#artifacts.close();
  }

  requestShutdown(reason: string): void {
    this.log.info({ reason }, "asked to stop");
    this.#options.onShutdown(reason);
  }

  // ----------------------------------------------------------------------------------------------------
  // submitting

  submit(configJson: string, runId = "", submitter = ""): { runId: string; digest: string } {
    return this.#submissions.submit(configJson, runId, submitter);
  }
  validate(configJson: string): ReturnType<Core["validate"]> {
    return this.#submissions.validate(configJson);
  }

  // --------------------------------------------------------------------------------------------------------
  // sweeps

  /** Loaded when the first sweep begins, and at the start if an earlier daemon has left one. */
  #sweepParts(): Promise<
    { sweeps: Sweeps; summary: typeof import("../../sweeps/results/summary.ts") }
  > {
    return this.#sweeps ??= Promise.all([
      import("../../sweeps/sweeps.ts"),
      import("../../sweeps/results/summary.ts"),
    ]).then(([{ Sweeps }, summary]) => {
      const { registry, telemetry, log, gpus } = this.#options;
      const sweeps = new Sweeps({
        registry,
        records: telemetry,
        log,
        parallel: () => Math.max(1, navigator.hardwareConcurrency, gpus.size),
        predecessor: (text, at) => afterText(predecessor(text, at, registry)),
        check: (configJson, submitter) => this.#submissions.check(configJson, submitter),
        submit: (configJson, runId, submitter, trial) =>
          this.#submissions.submit(configJson, runId, submitter, trial),
        together: (work) => this.#submissions.together(work),
        cancel: (runId, reason) => this.#control.cancel(runId, { reason }),
        canPause: (runId) => this.#control.canPause(runId),
        pause: (runId) => this.#control.pause(runId),
        resume: (runId) => this.#control.resume(runId),
        checkpointOf: (runId) =>
          this.#supervisor.checkpointOf(this.#options.registry.require(runId)),
        retry: (runId) => this.retry(runId),
      });
      sweeps.start();
      return { sweeps, summary };
    });
  }

  ownerOfSweep(ref: string, alone?: string): string {
    return this.#options.registry.sweeps.resolve(ref, alone).submitter;
  }

  async beginSweep(
    specJson: string,
    sweepId: string,
    anyName: boolean,
    submitter: string,
  ): Promise<SweepJson> {
    const { sweeps } = await this.#sweepParts();
    return this.getSweep(sweeps.create(specJson, sweepId, anyName, submitter).sweepId, 0);
  }
  async listSweeps(limit: number, owner?: string): Promise<SweepJson[]> {
    const { sweeps, summary } = await this.#sweepParts();
    const found: SweepJson[] = [];
    let began = performance.now();
    for (const row of this.#options.registry.sweeps.list(limit, owner)) {
      const trouble = sweeps.troubleOf(row.sweepId);
      found.push(summary.sweepOutline(this.#sweepReaders, row, sweeps.outlineOf(row), trouble));
      if (performance.now() < began + LIST_TURN_MS) continue;
      await yieldToOthers();
      began = performance.now();
    }
    return found;
  }
  async getSweep(ref: string, trials: number): Promise<SweepJson> {
    const row = this.#options.registry.sweeps.resolve(ref);
    const { sweeps, summary } = await this.#sweepParts();
    const trouble = sweeps.troubleOf(row.sweepId);
    return await summary.sweepSummary(this.#sweepReaders, row, sweeps.specOf(row), trials, trouble);
  }
  async moreSeeds(ref: string, seeds: string, winner: boolean): Promise<SweepJson> {
    const { name, seeds: [seed], detail } = await this.getSweep(ref, 0);
    if (seed === undefined) {
      throw new MosaicError("failed_precondition", `sweep ${name} has no seeds`, {
        hint: "Begin it with --seeds, and with {seed} in its command.",
      });
    }
    if (winner && !detail!.winner) {
      throw new MosaicError("failed_precondition", `sweep ${name} has no best point yet`);
    }
    const { wholeAxis } = await import("../../sweeps/words.ts");
    const like = winner ? { like: detail!.winner!.trial } : {};
    const extension = { axes: [], space: [], seeds: wholeAxis(seed, seeds), ...like };
    return this.changeSweep(ref, "extend", JSON.stringify(extension));
  }
  async sweepTable(ref: string, of: string, format: string): Promise<Uint8Array<ArrayBuffer>> {
    const [sweep, { tableBytes }] = await Promise.all([
      this.getSweep(ref, Infinity),
      import("../../sweeps/results/sweep_table.ts"),
    ]);
    return await tableBytes(sweep, of, format);
  }
  async deleteSweep(ref: string): Promise<SweepJson> {
    const row = this.#options.registry.sweeps.resolve(ref);
    const { sweeps, summary } = await this.#sweepParts();
    const outline = summary.sweepOutline(this.#sweepReaders, row, sweeps.outlineOf(row), undefined);
    sweeps.delete(row);
    return outline;
  }
  async changeSweep(ref: string, action: string, extension: string): Promise<SweepJson> {
    const row = this.#options.registry.sweeps.resolve(ref);
    const { sweeps } = await this.#sweepParts();
    return this.getSweep((await sweeps.change(row, action, extension)).sweepId, 0);
  }
  get #sweepReaders() {
    return { registry: this.#options.registry, records: this.#options.telemetry };
  }

  // -------------------------------------------------------------------------------------------------------
  // showing

  detail(row: RunRow): RunDetail {
    return this.#views.detail(row);
  }
  rewardOf(row: RunRow): number | null {
    return this.#views.rewardOf(row);
  }
  async query(filter: RunFilter, query: RunQuery): Promise<RunQueryPage> {
    const { where, sort, columns, limit, token } = query;
    if (where === "" && sort === "" && columns.length === 0) {
      return {
        ...this.list(filter, token === undefined ? { limit } : { limit, token }),
        values: [],
      };
    }
    const { found, nextToken, total } = await queryRuns(this.#valueReaders, filter, query);
    // Runs that were deleted meanwhile are left out.
    const existing = found.flatMap(({ runId, values }) => {
      const row = filter.deleted ? this.runs.known(runId) : this.runs.get(runId);
      return row === undefined ? [] : [{ run: this.detail(row), values }];
    });
    return {
      runs: existing.map(({ run }) => run),
      values: existing.map(({ values }) => values),
      nextToken,
      total,
    };
  }

  get #valueReaders() {
    const { runs, records } = this;
    return {
      runs,
      records,
      objectives: this.#objectives,
      detail: (row: RunRow) => this.detail(row),
    };
  }

  fits(row: RunRow, where: string): boolean {
    return runFits(this.#valueReaders, row, where);
  }

  parameters(runId: string): RunParameter[] {
    return parametersOfRun(this, runId);
  }

  whole(row: RunRow): WholeRun {
    return { ...this.#views.whole(row), parameters: this.parameters(row.runId) };
  }
  list(filter: RunFilter, page: { limit: number; token?: string }): ReturnType<Core["list"]> {
    return this.#views.list(filter, page);
  }
  ranks(row: RunRow): Rank[] {
    return this.#views.ranks(row);
  }

  directoryOf(row: RunRow): string {
    return this.#options.layout.runDir(row.baseDir, row.runId);
  }
  logFile(row: RunRow, stream: "stdout" | "stderr", of?: LogOf): string {
    return this.#views.logFile(row, stream, of);
  }
  openLog(row: RunRow, stream: "stdout" | "stderr", of?: LogOf): LogFile | undefined {
    const steps = stepsOf(this.records, row.runId);
    return openLog(this.logFile(row, stream, of), (thin) => rendered(thin, steps));
  }
  openMergedLog(row: RunRow, of: LogOf = {}): MergedLog {
    const path = this.logFile(row, "stdout", of).replace(/\.stdout\.log$/, ".times");
    const ended = isEnded(row.state) || (of.attempt ?? row.attempt) !== row.attempt;
    return new MergedLog(
      this.openLog(row, "stdout", of),
      this.openLog(row, "stderr", of),
      logTimesOf(readRecord(path) ?? ""),
      ended,
    );
  }
  /** What a run's processes and GPUs used just now. */
  sampled(
    runId: string,
    attempt: number,
    points: readonly (readonly [name: string, value: number])[],
  ): void {
    this.#supervisor.sampled(runId, attempt, points);
  }
  lookAtGpus(): Promise<void> {
    return this.#views.lookAtGpus();
  }
  host(): HostInfo {
    return this.#views.host();
  }

  // ---------------------------------------------------------------------------------------------------
  // controlling

  cancel(runId: string, options: { graceSeconds?: number; reason?: string } = {}): RunRow {
    return this.#control.cancel(runId, options);
  }
  pause(runId: string): RunRow {
    return this.#control.pause(runId);
  }
  resume(runId: string): RunRow {
    return this.#control.resume(runId);
  }
  throttle(runId: string, maxRateHz: number): RunRow {
    return this.#control.throttle(runId, maxRateHz);
  }

  edit(runId: string, change: Edit): RunRow {
    return this.#control.edit(runId, change);
  }
  observe(runId: string, patterns: readonly string[]): Promise<ObservedFile[]> {
    return this.#observing.observe(runId, patterns);
  }
  retry(runId: string): RunRow {
    this.#submissions.requireRoom();
    return this.#control.retry(runId);
  }
  reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    return this.#control.reset(runId, fromCheckpoint);
  }

  // ------------------------------------------------------------------------------------------------------
  // deleting

  async importRun(name: string): Promise<RunRow> {
    const { runId } = await importRun(this.#imports, name);
    this.#enterDueSlurmDefaults();
    return this.#options.registry.require(runId);
  }
  async delete(
    runId: string,
    forever: boolean,
  ): Promise<{ freedBytes: number; until: number | null }> {
    if (forever || this.keepDeletedMs === 0) {
      return { ...await this.#cleanup.delete(runId), until: null };
    }
    return { freedBytes: 0, until: this.#cleanup.trash(runId).deletedAt! + this.keepDeletedMs };
  }
  restore(runId: string): RunRow {
    return this.#cleanup.restore(runId);
  }
  diskUsage(): Promise<DiskUsage> {
    return this.#cleanup.diskUsage();
  }
  /** Measures now, without the cache, for callers that delete by the result. */
  diskUsageNow(): Promise<DiskUsage> {
    return this.#cleanup.diskUsageNow();
  }
  /** @param test sends a test message to one receiver, or to all: "" */
  setMessages(test: Core["testMessages"]): void {
    this.#testMessages = test;
  }

  async testMessages(receiver: string): Promise<{ receiver: string; error: string }[]> {
    if (this.#testMessages !== undefined) return await this.#testMessages(receiver);
    throw new MosaicError("failed_precondition", "this daemon was started without --notify", {
      hint: "See docs/how-to/messages.md.",
    });
  }

  beforeDelete(listener: (row: RunRow) => void): void {
    this.#cleanup.beforeDelete(listener);
  }

  recordCode(record: CodeToRecord): Promise<void> {
    return recordCode(this.#options.registry, record);
  }
  code(runId: string, diffs: boolean): RecordedCode[] {
    return recordedCode(this.#options.registry, runId, diffs);
  }

  // -------------------------------------------------------------------------------------------
  // workers and proxies

  registerWorker(request: RegisterRequest): { acceptedVersion: string; sessionToken: string } {
    return this.#workerCalls.register(request);
  }
  heartbeat(runId: string): void {
    this.#workerCalls.heartbeat(runId);
  }
  publish(runId: string, steps: StepRecord[], episodes: EpisodeRecord[]): void {
    this.#workerCalls.publish(runId, steps, episodes);
  }
  record(runId: string, events: WorkerEventRecord[], within?: string): void {
    this.#workerCalls.publish(runId, [], [], events, "mlflow", within);
  }
  childRun(runId: string, key: string, name: string): string | undefined {
    return this.#supervisor.children.child(runId, key, name);
  }
  endChild(runId: string, status: string): void {
    this.#supervisor.children.endOne(runId, status);
  }
  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    this.#placer.arrived(hello);
    return this.#supervisor.openProxy(hello, link);
  }
  readerStarved(runId: string, starved: boolean): void {
    this.#supervisor.get(runId)?.backpressure.starved(starved);
  }
  workerListens(runId: string, bearer: string): (() => void) | undefined {
    const { sessionToken } = this.#options.registry.require(runId);
    const attempt = this.#supervisor.get(runId);
    if (
      attempt === undefined || sessionToken === null ||
      !sameToken(bearer, workerToken(sessionToken))
    ) {
      return undefined;
    }
    attempt.listeners++;
    return () => attempt.listeners--;
  }
  readerState(runId: string, kind: TelemetryKind, state: "STARVED" | "RESUMED"): void {
    const { registry } = this.#options;
    if (registry.get(runId) !== undefined) registry.appendEvent(runId, "control", { state, kind });
  }
}

function tlsOf(target: string, ca: string | undefined) {
  return ca === undefined && !target.startsWith("https://") ? null : { ca: ca ?? null };
}

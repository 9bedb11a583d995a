/**
 * Handles what a connected proxy sends: batches, files, heartbeats, applied control, the exit. Each
 * report first checks that this is still the run's current proxy, and throws `aborted` when another
 * has replaced it.
 */
import { MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import type { Chunk, ChunkAnswer, Uploads } from "../../uploads/take_uploads.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import type { Registry } from "../../registry/registry.ts";
import type { IngestBatch } from "../../records/ingest_batch.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Attempt } from "./attempt.ts";
import type { ChildRuns } from "./records/child_runs.ts";
import type {
  AppliedControl,
  BatchSamples,
  DesiredControl,
  Observed,
  ProxySession,
  WorkerSettings,
} from "./state/connected_proxy.ts";
import type { Progress } from "./state/progress.ts";
import type { Performer, Supervised } from "./performer.ts";

export interface SessionOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  runs: ReadonlyMap<string, Supervised>;
  performer: Performer;
  /** Runs within the runs. */
  children: ChildRuns;
  clock: () => number;
}

export class Session implements ProxySession {
  readonly control: DesiredControl;
  readonly observed: Observed | undefined;
  readonly workerSettings: WorkerSettings | undefined;
  readonly #options: SessionOptions;
  readonly #runId: string;
  readonly #uploads: Uploads | undefined;
  #position: number;
  /**
   * Journal bytes that were written before this connection's first batch: reading them says nothing
   * about the current rate.
   */
  #writtenBefore: number | undefined;

  constructor(
    options: SessionOptions,
    runId: string,
    welcome: {
      position: number;
      control: DesiredControl;
      observed: Observed | undefined;
      uploads?: Uploads | undefined;
      workerSettings?: WorkerSettings | undefined;
    },
  ) {
    this.#options = options;
    this.#runId = runId;
    this.#position = welcome.position;
    this.control = welcome.control;
    this.observed = welcome.observed;
    this.workerSettings = welcome.workerSettings;
    this.#uploads = welcome.uploads;
  }

  get takesFiles(): boolean {
    return this.#uploads !== undefined;
  }

  get journalPosition(): number {
    return this.#position;
  }

  async batch(delivered: IngestBatch, journalSize: number, samples: BatchSamples): Promise<number> {
    return this.#position = await this.#store(delivered, journalSize, samples);
  }

  async #store(
    delivered: IngestBatch,
    journalSize: number,
    samples: BatchSamples,
  ): Promise<number> {
    const { runs, performer, clock } = this.#options;
    const supervised = this.#current();
    const { attempt, intake } = supervised;
    this.#options.children.expectTrials(attempt.runId, delivered.events);
    const { result, batch } = await intake.store(delivered);
    if (result.type === "gap") return result.position;
    const now = clock();
    if (result.type === "stored") {
      this.#writtenBefore ??= journalSize;
      if (batch.to > batch.from) attempt.host.proxyDelivered();
      attempt.progress.delivered(result.steps, batch.to <= this.#writtenBefore, now);
      if (result.events.length > 0) this.#metricStepReached(attempt, now);
      if (result.events.some(({ kind }) => kind === "heartbeat")) {
        attempt.progress.clock.workerBeat();
      }
      supervised.alerts.recorded({ ...batch, events: result.events });
      intake.enterEvents(result);
      attempt.progress.tells(result.events);
      this.#options.children.makeTrials(attempt.runId, result.events);
      intake.sample(batch, samples, now);
    }
    // The attempt may have ended during the commit.
    if (runs.get(attempt.runId) !== supervised) return result.position;
    const rule = attempt.plan.telemetry.strict ? Object.keys(batch.violations)[0] : undefined;
    // Also for a duplicate: the fault of the first delivery may not have been entered.
    if (rule !== undefined) performer.fault(supervised, `telemetry_schema: ${rule}`);
    if (result.type === "duplicate" || result.steps + result.episodes + result.events.length > 0) {
      performer.active(attempt);
    }
    performer.alive(attempt, journalSize);
    performer.alert(supervised);
    return result.position;
  }

  async source(received: IngestBatch): Promise<void> {
    const { runs, performer, clock } = this.#options;
    const supervised = this.#current();
    const { attempt, intake } = supervised;
    const file = received.source?.name;
    const within = file === undefined
      ? undefined
      : this.#options.children.runOf(attempt.runId, attempt.attempt, file);
    const announced = intake.withoutAnnounced(received);
    const delivered = within === undefined ? announced : { ...announced, within };
    this.#options.children.expectTrials(within ?? attempt.runId, delivered.events);
    const { result } = await intake.store(delivered);
    if (result.type === "gap") {
      throw new MosaicError(
        "aborted",
        `batch ${delivered.to} of ${delivered.source?.name} came, and ${result.position} are stored`,
        { hint: "Connect again: the welcome names the position to continue from." },
      );
    }
    if (result.type === "stored") {
      if (delivered.to > delivered.from) attempt.host.proxyDelivered();
      supervised.alerts.recorded({ ...delivered, events: result.events });
      intake.enterEvents(result);
      attempt.progress.tells(result.events);
      this.#options.children.makeTrials(within ?? attempt.runId, result.events);
      this.#options.children.tracked(within ?? attempt.runId, delivered.events);
      this.#metricStepReached(attempt, clock());
    }
    if (runs.get(attempt.runId) !== supervised) return;
    if (
      delivered.episodes.length > 0 ||
      delivered.events.some(({ kind }) => !kind.startsWith("source_"))
    ) {
      performer.active(attempt);
      attempt.progress.clock.output(clock());
    }
    performer.alive(attempt);
    performer.alert(supervised);
  }

  #metricStepReached({ runId, attempt, progress }: Attempt, now: number): void {
    const { steps, toldStep } = this.#options.telemetry.summary(runId);
    if (steps === 0) progress.metricStepReached(toldStep, now);
    progress.attemptStep = this.#options.telemetry.attemptStep(runId, attempt);
  }

  async file(chunk: Chunk): Promise<ChunkAnswer> {
    if (this.#uploads === undefined) {
      throw new MosaicError(
        "failed_precondition",
        "no files were asked for: the run's files are on the daemon's disk",
      );
    }
    const { attempt } = this.#current();
    const answer = await attempt.arrivals!.take(this.#uploads, chunk);
    this.#current();
    this.#options.performer.alive(attempt);
    return answer;
  }

  commit(): void {
    this.#options.telemetry.commitWaiting();
  }

  heartbeat(journalSize: number): void {
    this.#options.performer.alive(this.#current().attempt, journalSize);
  }

  workerStarted(worker: ProcessRef): void {
    const { attempt } = this.#current();
    this.#options.registry.update(attempt.runId, { worker });
  }

  /** Enters the applied control into the registry. */
  controlApplied(applied: AppliedControl): void {
    const { performer } = this.#options;
    const { attempt } = this.#current();
    performer.alive(attempt);
    const byPolicy = attempt.backpressure.hold.paused
      ? "backpressure"
      : attempt.pausedBy ?? "by request";
    const reason = applied.selfPaused === "" ? byPolicy : applied.selfPaused;
    const paused = applied.paused || applied.selfPaused !== "";
    const { state } = performer.row(attempt);
    if (paused && (state === "READY" || state === "EXECUTING")) {
      performer.apply(
        attempt,
        { type: "pause", reason },
        () => ({ kind: "paused", data: { reason } }),
      );
    } else if (!paused && state === "PAUSED") {
      performer.apply(attempt, { type: "resume" }, () => ({ kind: "resumed", data: {} }));
    }
  }

  heldByStore(missing: Progress["heldByStore"]): void {
    const { attempt } = this.#current();
    const before = attempt.progress.heldByStore;
    attempt.progress.heldByStore = missing;
    if (missing === undefined || before !== undefined) return;
    try {
      this.controlApplied({ paused: false, maxRateHz: 0, selfPaused: "store" });
    } catch (error) {
      // The registry may be on the same full disk.
      if (!isShortage(error)) throw error;
    }
  }

  exit(report: ExitReport): void {
    if (!report.lost && report.finalPosition > this.#position) {
      throw new MosaicError(
        "aborted",
        `the exit at journal position ${report.finalPosition} came before the journal, stored up to ${this.#position}`,
      );
    }
    const { log, performer, clock } = this.#options;
    const supervised = this.#current();
    const { attempt, intake } = supervised;
    intake.entries.enterWaiting();
    const { code, signal, lost } = report;
    if (signal !== "" || code !== 0) {
      log.info(
        { run_id: attempt.runId, attempt: attempt.attempt, code, signal, lost },
        "worker has ended",
      );
    }
    performer.perform(supervised, attempt.exit(report, clock()));
  }

  closed(): void {
    this.#uploads?.close();
    const supervised = this.#options.runs.get(this.#runId);
    if (supervised === undefined || supervised.attempt.session !== this) return;
    supervised.attempt.progress.heldByStore = undefined;
    supervised.attempt.host.proxyAbsent(this.#options.clock());
    this.#options.performer.perform(supervised, supervised.attempt.disconnected());
  }

  #current(): Supervised {
    const supervised = this.#options.runs.get(this.#runId);
    if (supervised?.attempt.session === this) return supervised;
    throw new MosaicError(
      "aborted",
      `another proxy of run ${this.#runId} has replaced this one, or the attempt has ended`,
    );
  }
}

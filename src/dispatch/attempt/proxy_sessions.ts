/** Handles what connected proxies send: hello, batches, heartbeats, applied control, the exit. */
import type { ProcessRef } from "../../os/identity.ts";
import type { ProxyHello, ProxyLink, ProxySession } from "./connected_proxy.ts";
import { MosaicError } from "../../base/errors.ts";
import { isShortage } from "../../os/shortage.ts";
import type { Logger } from "../../base/log.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import { isEnded, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { Chunk, ChunkAnswer, Uploads } from "../../registry/artifacts/take_uploads.ts";
import type { IngestBatch } from "../../telemetry/ingest_batch.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Attempt } from "./attempt.ts";
import type { Performer, Supervised } from "./performer.ts";
import { companyOf } from "./neighbours.ts";
import { type AppliedControl, type BatchSamples, Session, type SessionOwner } from "./session.ts";

export interface ProxySessionsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  runs: ReadonlyMap<string, Supervised>;
  performer: Performer;
  clock: () => number;
}

const CURSOR_DAMAGED = "how far the files of this attempt are stored is damaged: only its output is read. When the " +
  "attempt has ended, stop the daemon and run mosaic doctor --repair, which reads the files";

export class ProxySessions implements SessionOwner {
  readonly #options: ProxySessionsOptions;

  constructor(options: ProxySessionsOptions) {
    this.#options = options;
  }

  open(hello: ProxyHello, link: ProxyLink): ProxySession {
    const { registry, telemetry, log, performer, clock } = this.#options;
    const { supervised, row } = this.#called(hello);
    const { attempt } = supervised;
    const { host, progress } = attempt;
    host.admit(row, hello);
    const position = this.#positionOf(attempt);
    // The proxy is alive, even if a full disk keeps its session from being entered.
    const now = clock();
    progress.clock.signOfLife(now);
    host.proxySeen(hello.proxy, now);
    const worker = hello.worker ?? host.worker() ?? null;
    registry.update(row.runId, { proxy: hello.proxy, worker });
    performer.apply(attempt, { type: "registered" });
    const others = this.#others(attempt);
    const cwdOf = ({ plan }: Attempt) => plan.worker.cwd;
    const cursors = telemetry.sourceCursors(row.runId, row.attempt);
    if (cursors === undefined) log.error({ run_id: row.runId, attempt: row.attempt }, CURSOR_DAMAGED);
    const session = new Session(this, row.runId, {
      position,
      control: performer.desired(attempt),
      observed: cursors && { cursors, ...companyOf(cwdOf(attempt), others.map(cwdOf)) },
      uploads: attempt.arrivals?.receiver(),
      workerSettings: hello.startsWorker === true ? host.workerSettings?.(row) : undefined,
    });
    host.proxyConnected(hello.proxy, worker ?? undefined);
    performer.perform(supervised, attempt.connected(session, link));
    // They now share the host with another run.
    for (const other of others) other.link?.accompanied(companyOf(cwdOf(other), [cwdOf(attempt)]));
    log.info(
      { run_id: row.runId, attempt: row.attempt, proxy: hello.proxy.pid, worker: worker?.pid },
      "proxy connected",
    );
    return session;
  }

  /** The attempt of a hello. @throws MosaicError `unavailable`, `failed_precondition` when it needs no proxy */
  #called(hello: ProxyHello) {
    const supervised = this.#options.runs.get(hello.runId);
    const row = this.#options.registry.require(hello.runId);
    if (supervised === undefined) {
      // The attempt's recovery still waits for free space.
      if (RUNNING_STATES.includes(row.state)) {
        throw new MosaicError("unavailable", `run ${row.runId} is not recovered yet by this daemon`);
      }
      throw new MosaicError("failed_precondition", `run ${row.runId} is ${row.state}: no proxy can serve it`);
    }
    const { phase } = supervised.attempt.state;
    if (isEnded(row.state) || row.attempt !== hello.attempt || phase.t === "exited" || phase.t === "ended") {
      throw new MosaicError("failed_precondition", `attempt ${hello.attempt} of run ${row.runId} has ended`);
    }
    return { supervised, row };
  }

  /** Position up to which the attempt's journal is stored. */
  #positionOf({ runId, attempt }: Attempt): number {
    // Batches of an earlier connection may wait for their commit.
    this.commitBatches();
    return this.#options.telemetry.journalPosition(runId, attempt);
  }

  async deliver(
    session: Session,
    delivered: IngestBatch,
    journalSize: number,
    samples: BatchSamples,
  ): Promise<number> {
    const { runs, performer, clock } = this.#options;
    const supervised = this.#current(session);
    const { attempt, intake } = supervised;
    const { result, batch } = await intake.store(delivered);
    if (result.type === "gap") return result.position;
    const now = clock();
    if (result.type === "stored") {
      session.writtenBefore ??= journalSize;
      attempt.progress.delivered(result.steps, batch.to <= session.writtenBefore, now);
      if (result.events.length > 0) this.#metricStepReached(attempt, now);
      if (result.events.some(({ kind }) => kind === "heartbeat")) attempt.progress.clock.workerBeat();
      supervised.alerts.recorded({ ...batch, events: result.events });
      intake.enterEvents(result);
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

  async deliverSource(session: Session, received: IngestBatch): Promise<void> {
    const { runs, performer, clock } = this.#options;
    const supervised = this.#current(session);
    const { attempt, intake } = supervised;
    const delivered = intake.withoutAnnounced(received);
    const { result } = await intake.store(delivered);
    if (result.type === "gap") {
      throw new MosaicError(
        "aborted",
        `batch ${delivered.to} of ${delivered.source?.name} came, and ${result.position} are stored`,
        { hint: "Connect again: the welcome names the position to continue from." },
      );
    }
    if (result.type === "stored") {
      supervised.alerts.recorded({ ...delivered, events: result.events });
      intake.enterEvents(result);
      this.#metricStepReached(attempt, clock());
    }
    if (runs.get(attempt.runId) !== supervised) return;
    if (delivered.episodes.length > 0 || delivered.events.some(({ kind }) => !kind.startsWith("source_"))) {
      performer.active(attempt);
      attempt.progress.clock.output(clock());
    }
    performer.alive(attempt);
    performer.alert(supervised);
  }

  #metricStepReached({ runId, progress }: Attempt, now: number): void {
    const { steps, toldStep } = this.#options.telemetry.summary(runId);
    if (steps === 0) progress.metricStepReached(toldStep, now);
  }

  /** Live runs whose workers may write to the same files. */
  #others({ runId, host }: Attempt): Attempt[] {
    if (host.apart) return [];
    return [...this.#options.runs.values()].map(({ attempt }) => attempt)
      .filter((other) => other.runId !== runId && !other.host.apart);
  }

  async takeFile(session: Session, uploads: Uploads, chunk: Chunk): Promise<ChunkAnswer> {
    const { attempt } = this.#current(session);
    const answer = await attempt.arrivals!.take(uploads, chunk);
    this.#current(session);
    this.#options.performer.alive(attempt);
    return answer;
  }

  commitBatches(): void {
    this.#options.telemetry.commitWaiting();
  }

  proxyHeartbeat(session: Session, journalSize: number): void {
    this.#options.performer.alive(this.#current(session).attempt, journalSize);
  }

  workerStarted(session: Session, worker: ProcessRef): void {
    const { attempt } = this.#current(session);
    this.#options.registry.update(attempt.runId, { worker });
  }

  /** Enters the applied control into the registry. */
  controlApplied(session: Session, applied: AppliedControl): void {
    const { performer } = this.#options;
    const { attempt } = this.#current(session);
    performer.alive(attempt);
    const byPolicy = attempt.backpressure.hold.paused ? "backpressure" : attempt.pausedBy ?? "by request";
    const reason = applied.selfPaused === "" ? byPolicy : applied.selfPaused;
    const paused = applied.paused || applied.selfPaused !== "";
    const { state } = performer.row(attempt);
    if (paused && (state === "READY" || state === "EXECUTING")) {
      performer.apply(attempt, { type: "pause", reason }, () => ({ kind: "paused", data: { reason } }));
    } else if (!paused && state === "PAUSED") {
      performer.apply(attempt, { type: "resume" }, () => ({ kind: "resumed", data: {} }));
    }
  }

  heldByStore(session: Session, held: boolean): void {
    const { attempt } = this.#current(session);
    const before = attempt.progress.heldByStore;
    attempt.progress.heldByStore = held;
    if (!held || before) return;
    try {
      this.controlApplied(session, { paused: false, maxRateHz: 0, selfPaused: "store" });
    } catch (error) {
      // The registry may be on the same full disk.
      if (!isShortage(error)) throw error;
    }
  }

  exitReported(session: Session, report: ExitReport): void {
    const { log, performer, clock } = this.#options;
    const supervised = this.#current(session);
    const { attempt, intake } = supervised;
    intake.entries.enterWaiting();
    const { code, signal, lost } = report;
    if (signal !== "" || code !== 0) {
      log.info({ run_id: attempt.runId, attempt: attempt.attempt, code, signal, lost }, "worker has ended");
    }
    performer.perform(supervised, attempt.exit(report, clock()));
  }

  sessionClosed(session: Session): void {
    const supervised = this.#options.runs.get(session.runId);
    if (supervised === undefined || supervised.attempt.session !== session) return;
    supervised.attempt.progress.heldByStore = false;
    supervised.attempt.host.proxyAbsent(this.#options.clock());
    this.#options.performer.perform(supervised, supervised.attempt.disconnected());
  }

  #current(session: Session): Supervised {
    const supervised = this.#options.runs.get(session.runId);
    if (supervised?.attempt.session === session) return supervised;
    throw new MosaicError(
      "aborted",
      `another proxy of run ${session.runId} has replaced this one, or the attempt has ended`,
    );
  }
}

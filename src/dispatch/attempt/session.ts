/** A connected proxy as the adapters see it. Each call checks that it is still the run's current proxy. */
import type { ProcessRef } from "../../os/identity.ts";
import type { DesiredControl, Observed, ProxySession, WorkerSettings } from "./connected_proxy.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import { MosaicError } from "../../base/errors.ts";
import type { Chunk, ChunkAnswer, Uploads } from "../../registry/artifacts/take_uploads.ts";
import type { IngestBatch } from "../../telemetry/ingest_batch.ts";

/** Samples of lines that cannot be read or break their schema. */
export interface BatchSamples {
  malformed: string[];
  violations: string[];
}

export interface AppliedControl {
  paused: boolean;
  maxRateHz: number;
  selfPaused: string;
}

/** The supervisor; each method throws `aborted` for a session that another has replaced. */
export interface SessionOwner {
  deliver(session: Session, batch: IngestBatch, journalSize: number, samples: BatchSamples): Promise<number>;
  deliverSource(session: Session, batch: IngestBatch): Promise<void>;
  takeFile(session: Session, uploads: Uploads, chunk: Chunk): Promise<ChunkAnswer>;
  commitBatches(): void;
  proxyHeartbeat(session: Session, journalSize: number): void;
  workerStarted(session: Session, leader: ProcessRef): void;
  controlApplied(session: Session, state: AppliedControl): void;
  heldByStore(session: Session, held: boolean): void;
  exitReported(session: Session, report: ExitReport): void;
  sessionClosed(session: Session): void;
}

export class Session implements ProxySession {
  readonly runId: string;
  readonly journalPosition: number;
  readonly control: DesiredControl;
  readonly observed: Observed | undefined;
  readonly workerSettings: WorkerSettings | undefined;
  /**
   * Journal bytes that were written before this connection's first batch: reading them says nothing about the current rate.
   */
  writtenBefore: number | undefined;
  readonly #owner: SessionOwner;
  readonly #uploads: Uploads | undefined;
  #position: number;

  constructor(
    owner: SessionOwner,
    runId: string,
    welcome: {
      position: number;
      control: DesiredControl;
      observed: Observed | undefined;
      uploads?: Uploads | undefined;
      workerSettings?: WorkerSettings | undefined;
    },
  ) {
    this.#owner = owner;
    this.runId = runId;
    this.journalPosition = this.#position = welcome.position;
    this.control = welcome.control;
    this.observed = welcome.observed;
    this.workerSettings = welcome.workerSettings;
    this.#uploads = welcome.uploads;
  }

  get takesFiles(): boolean {
    return this.#uploads !== undefined;
  }

  async file(chunk: Chunk): Promise<ChunkAnswer> {
    if (this.#uploads === undefined) {
      throw new MosaicError("failed_precondition", "no files were asked for: the run's files are on the daemon's disk");
    }
    return await this.#owner.takeFile(this, this.#uploads, chunk);
  }

  /** Position up to which the journal is stored. */
  get position(): number {
    return this.#position;
  }

  async batch(batch: IngestBatch, journalSize: number, samples: BatchSamples): Promise<number> {
    return this.#position = await this.#owner.deliver(this, batch, journalSize, samples);
  }

  async source(batch: IngestBatch): Promise<void> {
    await this.#owner.deliverSource(this, batch);
  }

  commit(): void {
    this.#owner.commitBatches();
  }

  heartbeat(journalSize: number): void {
    this.#owner.proxyHeartbeat(this, journalSize);
  }

  workerStarted(leader: ProcessRef): void {
    this.#owner.workerStarted(this, leader);
  }

  controlApplied(state: AppliedControl): void {
    this.#owner.controlApplied(this, state);
  }

  heldByStore(held: boolean): void {
    this.#owner.heldByStore(this, held);
  }

  exit(report: ExitReport): void {
    if (!report.lost && report.finalPosition > this.#position) {
      throw new MosaicError(
        "aborted",
        `the exit at journal position ${report.finalPosition} came before the journal, stored up to ${this.#position}`,
      );
    }
    this.#owner.exitReported(this, report);
  }

  closed(): void {
    this.#uploads?.close();
    this.#owner.sessionClosed(this);
  }
}

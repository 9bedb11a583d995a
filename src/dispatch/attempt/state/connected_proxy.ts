/**
 * A connected proxy: what it says of itself, what the daemon may send to it, and what it may
 * report.
 */
import type { ProcessRef } from "../../../os/processes/identity.ts";
import type { ExitReport } from "../../../registry/failure/explain.ts";
import type { Chunk, ChunkAnswer } from "../../../uploads/take_uploads.ts";
import type { Progress } from "./progress.ts";
import type { IngestBatch, SourceCursor } from "../../../records/ingest_batch.ts";

/** What clients and policies ask of a worker. */
export interface DesiredControl {
  paused: boolean;
  /** 0 is unlimited. */
  maxRateHz: number;
  /** The worker itself subscribes to control on a ControlStream: the stop waits for its answer. */
  workerHears: boolean;
}

/** Which other live runs may write files where a run does. */
export interface Company {
  /**
   * The working directory of one is the same, or above or below: for proxies that do not read
   * `neighbours`.
   */
  shared: boolean;
  /** There is one: files outside the working directory where trackers write may belong to it. */
  others: boolean;
  neighbours: {
    /** One has the same working directory. */
    same: boolean;
    /**
     * Working directories below this run's, relative to it: files there belong to the other run.
     */
    below: string[];
  };
}

/** What the proxy must know about files that it observes. */
export interface Observed extends Company {
  cursors: SourceCursor[];
}

/** What the engine may send to a proxy at any time. */
export interface ProxyLink {
  /** Another run has begun. @param company only of that run */
  accompanied(company: Company): void;
  control(desired: DesiredControl): void;
  /** Asks the worker for a checkpoint, if it reads messages; an earlier proxy does nothing. */
  saveCheckpoint(): void;
  /** SIGTERM to the worker's group, then SIGKILL after the grace period. */
  stop(graceSeconds: number): void;
  /** Ends the stream; the proxy reconnects. */
  close(reason: string): void;
}

export interface ProxyHello {
  runId: string;
  attempt: number;
  proxy: { pid: number; identity: string };
  worker: { pid: number; identity: string } | null;
  /** Where a proxy that an engine has placed runs; undefined for others. */
  place?: { host: string; job: string; gpus: string[] } | undefined;
  /** It starts its worker after the welcome; proxies of earlier versions do not set this. */
  startsWorker?: boolean;
}

/**
 * Settings of the config and the attempt, for a worker whose start file this daemon has not
 * written.
 */
export interface WorkerSettings {
  environment: Record<string, string>;
  resumeFrom: string | null;
  /**
   * The checkpoint must be fetched from this host's disk; `resumeFrom` is a path in the run's
   * directory.
   */
  fetch: boolean;
}

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

/** A connected proxy. One run has at most one: a newer connection replaces the older. */
export interface ProxySession {
  /** Position up to which the journal is stored. */
  readonly journalPosition: number;
  readonly control: DesiredControl;
  /** undefined: only the journal is accepted. */
  readonly observed: Observed | undefined;
  /**
   * The proxy's host shares no disk with the daemon: it uploads the files of its run's directory.
   */
  readonly takesFiles: boolean;
  /** undefined: the proxy has them, or its worker runs. */
  readonly workerSettings: WorkerSettings | undefined;
  /** Stores the next chunk of a file. @throws errors of the disk */
  file(chunk: Chunk): Promise<ChunkAnswer>;
  /**
   * Stores the batch and returns the position that is stored now; several may be in progress, in
   * order.
   * @throws MosaicError `unavailable` with nothing stored.
   */
  batch(batch: IngestBatch, journalSize: number, samples: BatchSamples): Promise<number>;
  /**
   * Stores a batch of another source than the journal. @throws MosaicError `aborted` when one
   * before it is missing
   */
  source(batch: IngestBatch): Promise<void>;
  /** Commits the pending batches at once. */
  commit(): void;
  heartbeat(journalSize: number): void;
  /** The proxy has started its worker. */
  workerStarted(leader: ProcessRef): void;
  /** The proxy reports the control that it has applied. */
  controlApplied(state: AppliedControl): void;
  /**
   * What the proxy knows that the store lacks: then it holds its worker, and reports that after the
   * batch.
   */
  heldByStore(missing: Progress["heldByStore"]): void;
  /** Takes the exit; the transition is committed when this returns. */
  exit(report: ExitReport): void;
  closed(): void;
}

/**
 * What a daemon can do, as its adapters (gRPC services, the page) see it. The adapters translate; they decide nothing.
 * Implemented by src/dispatch/core/engine.ts.
 */
import type { ProcessRef } from "../../os/identity.ts";
import type { LogFile } from "../../os/packed_log.ts";
import type { Rank } from "../launch/placed/ranks.ts";
import type {
  EpisodeRecord,
  IngestBatch,
  SourceCursor,
  StepRecord,
  WorkerEventRecord,
} from "../../telemetry/ingest_batch.ts";
import type { TelemetryKind, TelemetryReader, ToldReward } from "../../telemetry/telemetry_log.ts";
import type { DiskUsage } from "../../registry/retention/disk_usage.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import type { Chunk, ChunkAnswer } from "../../registry/artifacts/take_uploads.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { Logger } from "../../base/log.ts";
import type { Activity } from "../../observability/activity.ts";
import type { RunQuery } from "./run_query.ts";
import type { RunParameter } from "./run_parameters.ts";

export type { RunParameter, RunQuery };

export interface RunQueryPage {
  runs: RunDetail[];
  /** By run, in the order of the columns. */
  values: unknown[][];
  nextToken: string | undefined;
  total: number;
}

/** Everything a person may want to know of a run, computed on demand. */
export interface RunDetail {
  row: RunRow;
  /** 1 is next; 0 when it does not wait. */
  queuePosition: number;
  /** Why an INIT run does not start yet, such as "2 GPUs" or "back-off until …"; "" otherwise. */
  waitingFor: string;
  directory: string;
  maxSteps: number;
  telemetry: {
    steps: number;
    episodes: number;
    events: number;
    otherLines: number;
    malformedLines: number;
    violations: Record<string, number>;
    journalPosition: number;
    journalSize: number;
    meanReward100: number | null;
    /** Steps per second over the last seconds; 0 for a run that is not EXECUTING. */
    stepsPerSecond: number;
    lastRecordAt: number | null;
    /** When a live worker last wrote to its logs; null where it has written nothing, or its logs are elsewhere. */
    lastOutputAt: number | null;
    metrics: number;
    /** The highest step of a metric. */
    toldStep: number;
    /** What a metric tells as the reward of episodes. */
    toldReward: ToldReward | null;
    /** Of those that the run has recorded, how many a later attempt recorded again. */
    overwritten: { steps: number; episodes: number };
  };
  /** GPU slots of the host. */
  hostGpus: number;
}

export interface HostInfo {
  version: string;
  pid: number;
  startedAt: number;
  stateDir: string;
  listen: string;
  http: string;
  gpus: { slot: number; runId: string | null; name: string }[];
  cpus: number;
  loadAverage: number[];
  memoryBytes: number;
  memoryAvailableBytes: number;
  diskBytes: number;
  diskAvailableBytes: number;
  telemetryBytes: number;
  rssBytes: number;
  runsByState: Record<string, number>;
}

export interface RegisterRequest {
  runId: string;
  workerId: string;
  workerKind: string;
  protoVersion: string;
  schemaId: string;
  schemaVersion: number;
  supportsPause: boolean;
  supportsCheckpoint: boolean;
}

/** What the daemon wants of a worker. */
export interface DesiredControl {
  paused: boolean;
  /** 0 is unlimited. */
  maxRateHz: number;
  /** The worker itself hears of it on its ControlStream: its answer is awaited before it is stopped. */
  workerHears: boolean;
}

/** What the engine may send to a proxy at any time. */
/** What the proxy has to know of the files that it observes. */
export interface Observed {
  cursors: SourceCursor[];
  /** Another live run has the same working directory. */
  shared: boolean;
  /** Another run is live: what lies where trackers write besides the working directory may be its. */
  others: boolean;
}

export interface ProxyLink {
  /** Another run has begun. @param shared it has the same working directory */
  accompanied(shared: boolean): void;
  control(desired: DesiredControl): void;
  /** SIGTERM to the worker's group, after the grace period SIGKILL. */
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
  /** It starts its worker when it is welcomed; earlier versions do not say. */
  startsWorker?: boolean;
}

/** What the config and the attempt bring to a worker whose start file this daemon has not written. */
export interface WorkerSettings {
  environment: Record<string, string>;
  resumeFrom: string | null;
  /** The checkpoint is on this host's disk only, and `resumeFrom` a path in the run's directory. */
  fetch: boolean;
}

/** A connected proxy. One run has at most one: a newer connection replaces the older. */
export interface ProxySession {
  readonly journalPosition: number;
  readonly control: DesiredControl;
  /** undefined: nothing but the journal is taken. */
  readonly observed: Observed | undefined;
  /** The proxy's host shares no disk with the daemon: it uploads the files of its run's directory. */
  readonly takesFiles: boolean;
  /** undefined: it has them, or its worker runs. */
  readonly workerSettings: WorkerSettings | undefined;
  /** Takes the next part of a file. @throws what the disk says */
  file(chunk: Chunk): Promise<ChunkAnswer>;
  /**
   * Stores the batch and gives the position now stored; several may be under way, in order.
   * @throws MosaicError `unavailable` with nothing stored.
   */
  batch(
    batch: IngestBatch,
    journalSize: number,
    samples: { malformed: string[]; violations: string[] },
  ): Promise<number>;
  /** Stores a batch of another source than the journal. @throws MosaicError `aborted` when one before it is missing */
  source(batch: IngestBatch): Promise<void>;
  /** Commits at once the batches that are under way. */
  commit(): void;
  heartbeat(journalSize: number): void;
  /** The proxy has started its worker. */
  workerStarted(leader: ProcessRef): void;
  /** What is in force at the proxy. */
  controlApplied(state: { paused: boolean; maxRateHz: number; selfPaused: string }): void;
  /** Whether its proxy knows that the store's disk is full: then it holds its worker, and its report of that follows the batch. */
  heldByStore(held: boolean): void;
  /** Takes the exit; the transition is committed when this returns. */
  exit(report: ExitReport): void;
  closed(): void;
}

/** What people write about a run; undefined stays as it is. */
export interface Edit {
  name?: string | undefined;
  addTags?: readonly string[];
  removeTags?: readonly string[];
  notes?: string | undefined;
}

export interface Core {
  /** Runs, transitions and events: to read and to follow. */
  readonly runs: RunReader;
  /** Stored telemetry: to read and to follow. */
  readonly records: TelemetryReader;
  readonly log: Logger;
  /** What adapters count, for metrics. */
  readonly activity: Activity;
  readonly startedAt: number;
  readonly version: string;

  /** @throws MosaicError `invalid_argument` with every violation, `already_exists`, `resource_exhausted`. */
  submit(configJson: string, runId?: string): { runId: string; digest: string };
  validate(
    configJson: string,
  ): { violations: { path: string; message: string }[]; digest: string; canonicalJson: string };

  detail(row: RunRow): RunDetail;
  /** One value a name, sorted by name; secrets are hidden. */
  parameters(runId: string): RunParameter[];
  /** The config's `resources` that the host holds the run's worker to ("memory_mb", "cpus"); the others are advice. */
  enforcedLimits(row: RunRow): string[];
  list(
    filter: RunFilter,
    page: { limit: number; token?: string },
  ): { runs: RunDetail[]; nextToken: string | undefined; total: number };

  /**
   * A page of the runs that fit a filter over columns, parameters and metrics, with the values of the columns asked for.
   * @throws MosaicError `invalid_argument` for a filter, column or token that is none
   */
  query(filter: RunFilter, query: RunQuery): Promise<RunQueryPage>;

  /** Answers at once; the run is CANCELLED when its group is gone. Cancelling an ended run changes nothing. */
  cancel(runId: string, options?: { graceSeconds?: number; reason?: string }): RunRow;
  pause(runId: string): RunRow;
  resume(runId: string): RunRow;
  throttle(runId: string, maxRateHz: number): RunRow;
  /** Changes what people write about a run. @throws `invalid_argument` that names the field */
  edit(runId: string, change: Edit): RunRow;
  /** An ended run gets another attempt. @throws `failed_precondition` when it lives. */
  retry(runId: string): RunRow;
  /** Stops the run if it lives and starts it again, from a checkpoint or the seed. */
  reset(runId: string, fromCheckpoint: string): Promise<RunRow>;
  /**
   * Takes in a run of another host, which lies unpacked in a directory below `trainer/imports`.
   * @throws `already_exists`, `invalid_argument`
   */
  importRun(name: string): Promise<RunRow>;
  /** Removes an ended run: rows, telemetry, files. @throws `failed_precondition` when it lives. */
  /** `freedBytes`: what its files and its telemetry took. */
  delete(runId: string): Promise<{ freedBytes: number }>;
  /** What all runs take, a minute ago at most; a walk through all of their files. */
  diskUsage(): Promise<DiskUsage>;

  registerWorker(request: RegisterRequest): { acceptedVersion: string; sessionToken: string };
  heartbeat(runId: string): void;
  /** The original's Publish RPCs. @throws `not_found`, `failed_precondition` (not registered). */
  publish(runId: string, steps: StepRecord[], episodes: EpisodeRecord[]): void;
  /** Numbers and parameters that a worker sends beside its output. @throws as `publish` does */
  record(runId: string, events: WorkerEventRecord[]): void;
  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession;
  /** A reader of the run has used up its credits (true), or has some again or has gone (false). */
  readerStarved(runId: string, starved: boolean): void;
  /**
   * A ControlStream names this run. @param bearer what its caller is authorized with
   * @returns what to call when the stream ends; undefined where the caller is not the run's worker
   */
  workerListens(runId: string, bearer: string): (() => void) | undefined;
  /** Enters into the event log that a reader waits for credits, or goes on. Of a run that is deleted, nothing. */
  readerState(runId: string, kind: TelemetryKind, state: "STARVED" | "RESUMED"): void;

  /** Absolute path of a run's directory. */
  directoryOf(row: RunRow): string;
  /** Absolute path of a run's log file (the newest attempt's). */
  logFile(row: RunRow, stream: "stdout" | "stderr", rank?: number): string;
  /** That file with what of it is packed or thinned; undefined if there is none. */
  openLog(row: RunRow, stream: "stdout" | "stderr", rank?: number): LogFile | undefined;
  /** The ranks of the newest attempt; empty for a run with one. */
  ranks(row: RunRow): Rank[];
  host(): HostInfo;
  requestShutdown(reason: string): void;
}

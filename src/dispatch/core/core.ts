/**
 * The daemon's operations, as its adapters (gRPC services, the page) see them. The adapters
 * translate and decide nothing. src/dispatch/core/engine.ts implements it.
 */
import type { MergedLog } from "../../journal/merged_log.ts";
import type { LogFile } from "../../journal/packed_log.ts";
import type { ProxyHello, ProxyLink, ProxySession } from "../attempt/state/connected_proxy.ts";
import type { Rank } from "../launch/placed/ranks.ts";
import type {
  EpisodeRecord,
  StepRecord,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { DiskUsage } from "../../registry/retention/disk_usage.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { SweepJson } from "../../sweeps/results/sweep_json.ts";
import type { Logger } from "../../base/log.ts";
import type { HostInfo } from "../../runs/fields/host_json.ts";
import type { RunDetail, WholeRun } from "../../runs/fields/run_types.ts";
import type { Activity } from "../../observability/activity.ts";
import type { Lineage } from "../lineage/lineage.ts";
import type { RunQuery } from "./run_query.ts";
import type { CodeToRecord, RecordedCode } from "../code/run_code.ts";
import type { RunParameter } from "./run_parameters.ts";

export type { HostInfo, RunDetail, RunParameter, RunQuery, SweepJson, WholeRun };

export interface RunQueryPage {
  runs: RunDetail[];
  /** By run; each in the order of the columns. */
  values: unknown[][];
  nextToken: string | undefined;
  total: number;
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

/** Fields that people write; undefined: unchanged. */
export interface Edit {
  name?: string | undefined;
  addTags?: readonly string[];
  removeTags?: readonly string[];
  notes?: string | undefined;
}

/** A file that a pattern names, or a pattern that names none. */
export interface ObservedFile {
  path: string;
  /** "": it is not read. */
  format: string;
  /** Points and episodes that the call has stored. */
  records: number;
  /** Why it is not read, or since when; "": all of it is stored. */
  note: string;
}

/**
 * Which of a run's logs; without a rank the first, without an attempt the newest that has written.
 */
export interface LogOf {
  rank?: number;
  attempt?: number;
}

export interface Core {
  /** Reads and follows runs, transitions and events. */
  readonly runs: RunReader;
  /** Reads and follows stored telemetry. */
  readonly records: TelemetryReader;
  readonly log: Logger;
  /** What runs have read of others, and named artifacts. */
  readonly lineage: Pick<Lineage, "find" | "name" | "versions" | "of">;
  /** Counters of the adapters, for metrics. */
  readonly activity: Activity;
  readonly startedAt: number;
  readonly version: string;
  /** How long deleted runs stay in the trash; 0: they are removed at once. */
  readonly keepDeletedMs: number;
  /** Bytes of one owner's runs; undefined: no limit. */
  readonly maxDiskPerUser: number | undefined;

  /**
   * @param submitter a token's name, or uid:N
   * @throws MosaicError `invalid_argument` with every violation, `already_exists`,
   * `resource_exhausted`
   */
  submit(configJson: string, runId?: string, submitter?: string): { runId: string; digest: string };
  validate(
    configJson: string,
  ): { violations: { path: string; message: string }[]; digest: string; canonicalJson: string };

  /**
   * Begins a sweep (src/sweeps/spec.ts).
   * @param anyName a name that is taken gets a number
   * @param submitter of its runs
   * @throws MosaicError `invalid_argument`, `already_exists`, `resource_exhausted`
   */
  beginSweep(
    specJson: string,
    sweepId: string,
    anyName: boolean,
    submitter: string,
  ): Promise<SweepJson>;
  /** Who began the sweep. @param alone only among this owner's @throws MosaicError `not_found` */
  ownerOfSweep(ref: string, alone?: string): string;
  /** Newest first, without their trials. @param owner only those that this one began */
  listSweeps(limit: number, owner?: string): Promise<SweepJson[]>;
  /**
   * By name, id or "@last". @param trials how many of its newest trials are listed @throws
   * MosaicError `not_found`
   */
  getSweep(ref: string, trials: number): Promise<SweepJson>;
  /**
   * Its runs stay. @returns the sweep as it was @throws MosaicError `not_found`,
   * `failed_precondition` while it has something to do
   */
  deleteSweep(ref: string): Promise<SweepJson>;
  /**
   * Tries the points of a sweep with further seeds. @param seeds such as `4..8` @param winner only
   * the best point
   * @throws MosaicError `invalid_argument`, `failed_precondition`
   */
  moreSeeds(ref: string, seeds: string, winner: boolean): Promise<SweepJson>;
  /**
   * A sweep's `points` or `trials` as a file: `csv`, `json` or `parquet`. @throws MosaicError
   * `invalid_argument`
   */
  sweepTable(ref: string, of: string, format: string): Promise<Uint8Array<ArrayBuffer>>;
  /**
   * @param action "pause", "resume", "cancel", "retry_failed", "retry", "prune", "extend"
   * @param extension for "extend": the pieces to add, for "retry": the numbers of the trials, for
   * "prune": trial and rung, as JSON
   * @throws MosaicError `not_found`, `failed_precondition`, `invalid_argument`
   */
  changeSweep(ref: string, action: string, extension: string): Promise<SweepJson>;

  detail(row: RunRow): RunDetail;
  /** With the fields that only a single run is shown with. */
  whole(row: RunRow): WholeRun;
  /** The number by which lists sort runs: `oneNumber`. */
  rewardOf(row: RunRow): number | null;
  /** One value per name, sorted by name; secrets are hidden. */
  parameters(runId: string): RunParameter[];
  list(
    filter: RunFilter,
    page: { limit: number; token?: string },
  ): { runs: RunDetail[]; nextToken: string | undefined; total: number };

  /**
   * A page of the runs that match a filter over columns, parameters and metrics, with the values of
   * the requested columns.
   * @throws MosaicError `invalid_argument` for an invalid filter, column or token
   */
  query(filter: RunFilter, query: RunQuery): Promise<RunQueryPage>;

  /**
   * Whether a run fits a filter, as `query` reads it. @throws MosaicError `invalid_argument` for an
   * invalid filter
   */
  fits(row: RunRow, where: string): boolean;

  /**
   * Sends a test message to the receivers of --notify. @param receiver a receiver's name; "" for
   * all
   * @returns an error for each, "" if it was sent
   * @throws MosaicError `failed_precondition` if there are none, `not_found`
   */
  testMessages(receiver: string): Promise<{ receiver: string; error: string }[]>;

  /**
   * Returns at once; the run is CANCELLED when its group is gone. Cancelling an ended run changes
   * nothing.
   */
  cancel(runId: string, options?: { graceSeconds?: number; reason?: string }): RunRow;
  pause(runId: string): RunRow;
  resume(runId: string): RunRow;
  throttle(runId: string, maxRateHz: number): RunRow;
  /** Changes the fields that people write. @throws `invalid_argument` that names the field */
  edit(runId: string, change: Edit): RunRow;
  /**
   * Reads further files as the run's: from now on while it runs, once if it has ended.
   * @param patterns absolute
   * @throws `invalid_argument` for a pattern, `failed_precondition` for a run whose files cannot be
   * read here
   */
  observe(runId: string, patterns: readonly string[]): Promise<ObservedFile[]>;
  /** Gives an ended run another attempt. @throws `failed_precondition` when it is live. */
  retry(runId: string): RunRow;
  /** Stops the run if it is live and starts it again, from a checkpoint or from the beginning. */
  reset(runId: string, fromCheckpoint: string): Promise<RunRow>;
  /**
   * Takes in a run of another host, which lies unpacked in a directory below `trainer/imports`.
   * @throws `already_exists`, `invalid_argument`
   */
  importRun(name: string): Promise<RunRow>;
  /**
   * Puts an ended run, with the runs within it, into the trash, where it is deleted for everybody;
   * `forever`: removes it, from the list or the trash, with rows, telemetry and files.
   * @returns `until`: how long the trash keeps it, Unix milliseconds, null if it is removed;
   * `freedBytes`: what its files and its telemetry took
   * @throws `failed_precondition` when it lives
   */
  delete(runId: string, forever: boolean): Promise<{ freedBytes: number; until: number | null }>;
  /**
   * Brings a run back from the trash. @throws `not_found`, `failed_precondition` for a run whose
   * parent is there
   */
  restore(runId: string): RunRow;
  /** Disk usage of all runs, at most a minute old; reads the sizes of all their files. */
  diskUsage(): Promise<DiskUsage>;

  /**
   * Stores what ran. @throws `invalid_argument` for a record of another form, `failed_precondition`
   * for an attempt that is over
   */
  recordCode(record: CodeToRecord): Promise<void>;
  /** What ran, by attempt; 0 is the submission. */
  code(runId: string, diffs: boolean): RecordedCode[];

  registerWorker(request: RegisterRequest): { acceptedVersion: string; sessionToken: string };
  heartbeat(runId: string): void;
  /** The original's Publish RPCs. @throws `not_found`, `failed_precondition` (not registered). */
  publish(runId: string, steps: StepRecord[], episodes: EpisodeRecord[]): void;
  /**
   * Numbers and parameters that a worker sends in addition to its output; those of a run within go
   * there. @throws as `publish` does
   */
  record(runId: string, events: WorkerEventRecord[], within?: string): void;
  /**
   * The run within a run that has this key; it is made if it is new, and undefined if the run has
   * too many.
   */
  childRun(runId: string, key: string, name: string): string | undefined;
  /** A run within a run has ended, as MLflow's clients say it. */
  endChild(runId: string, status: string): void;
  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession;
  /**
   * A reader of the run has used up its credits (true), or has credits again or has disconnected
   * (false).
   */
  readerStarved(runId: string, starved: boolean): void;
  /**
   * A ControlStream names this run.
   * @param bearer the caller's token
   * @returns the function to call when the stream ends; undefined if the caller is not the run's
   * worker
   */
  workerListens(runId: string, bearer: string): (() => void) | undefined;
  /**
   * Enters into the event log that a reader waits for credits, or continues. Does nothing for a
   * deleted run.
   */
  readerState(runId: string, kind: TelemetryKind, state: "STARVED" | "RESUMED"): void;

  /** Absolute path of a run's directory. */
  directoryOf(row: RunRow): string;
  /**
   * Absolute path of a run's log file.
   * @throws {MosaicError} `invalid_argument` for an attempt that the run did not have
   */
  logFile(row: RunRow, stream: "stdout" | "stderr", of?: LogOf): string;
  /** That file, including its packed or thinned part; undefined if there is none. */
  openLog(row: RunRow, stream: "stdout" | "stderr", of?: LogOf): LogFile | undefined;
  /** Both as one log, in the order in which they were written. */
  openMergedLog(row: RunRow, of?: LogOf): MergedLog;
  /** The ranks of the newest attempt; empty for a run with one rank. */
  ranks(row: RunRow): Rank[];
  host(): HostInfo;
  /** Asks the GPUs' drivers anew, for `host`. */
  lookAtGpus(): Promise<void>;
  requestShutdown(reason: string): void;
}

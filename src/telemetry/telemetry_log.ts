/**
 * The telemetry log's interfaces for readers and writers. src/telemetry/store.ts implements them.
 */
import type { DatabaseSync } from "node:sqlite";
import type { EpisodeRecord, StepRecord, WorkerEventRecord } from "../gen/records/record_types.ts";
import type { IngestBatch, SourceCursor } from "../records/ingest_batch.ts";
import type { TelemetryKind } from "../records/record_fields.ts";
import type {
  IngestResult,
  ReportedParameter,
  RunTelemetry,
  SeriesBucketRow,
  SeriesSummary,
  StoredOf,
} from "../records/stored.ts";

/** A run with a follower. Dispose of it when done. */
export interface FollowedRun extends Disposable {
  readonly runId: string;
  /** Aborts when the run is deleted; its reason is a MosaicError `not_found`. */
  readonly deleted: AbortSignal;
}

/** Reads and follows stored telemetry. Reads are synchronous: SQLite is in the process. */
export interface TelemetryReader {
  /**
   * Rows with seq > since, ascending and contiguous, at most `limit` (and about 4 MiB). Seqs are
   * missing only where the file is damaged.
   * @throws `out_of_range` below retention.
   */
  read<K extends TelemetryKind>(
    runId: string,
    kind: K,
    since: number,
    limit: number,
  ): StoredOf[K][];
  /** The newest seq; 0: none. */
  head(runId: string, kind: TelemetryKind): number;
  /**
   * Seqs of events of these kinds, after `since` up to `to`, ascending: a few among possibly
   * millions of metrics events.
   */
  eventSeqs(runId: string, kinds: readonly string[], since: number, to: number): number[];
  /**
   * Follows the run that has this id now, or gets it next; a later run with the same id is another
   * run.
   */
  follow(runId: string): FollowedRun;
  /** Ends all who follow the run: it is in the trash. Its records stay. */
  leave(runId: string): void;
  /**
   * Resolves when head(runId, kind) > since, when the run is deleted, or when the signal aborts.
   * Costs one entry in a set while it waits.
   */
  waitBeyond(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void>;
  /** Counters of a run; zeros if it has no records. */
  summary(runId: string): RunTelemetry;
  /**
   * The highest step of a metric of the attempt, of those that this process has stored; 0: none.
   */
  attemptStep(runId: string, attempt: number): number;
  /** The series that every run has, then its metrics by name. */
  listSeries(runId: string): SeriesSummary[];
  /** The same with the copies by other sources, after the series that they are copies of. */
  listSources(runId: string): SeriesSummary[];
  /** The summary of one series; undefined if the run has no such series. */
  seriesOf(runId: string, name: string): SeriesSummary | undefined;
  /** The series of this name, of all runs. */
  seriesNamed(name: string): (SeriesSummary & { runId: string })[];
  /** Names of series of all runs; the first ten thousand. */
  seriesNames(): string[];
  /** The parameters that the run's program reported, by source. */
  parameters(runId: string): ReportedParameter[];
  /** Those of this name, of all runs. */
  parametersNamed(name: string): (ReportedParameter & { runId: string })[];
  /** Names in all runs. */
  parameterNames(): string[];
  /**
   * Points `fromX` to `toX` (0: the last), attempt after attempt, in about this many buckets.
   * @param rough reads few rows, for one of many lines: few points come one by one; of more, the
   * first, the last and the
   *   extremes stay, a bucket may begin before `fromX`, and of the newest points outside of buckets only the last is returned
   * @throws `not_found` for a name without points in the run
   */
  series(
    runId: string,
    name: string,
    fromX: number,
    toX: number,
    buckets: number,
    rough?: boolean,
  ): SeriesBucketRow[];
  /**
   * The buckets of this width from point `from` on: the end of what `series` answers for the whole,
   * for those who have the rest. @returns undefined if only the whole can be read, as for several
   * attempts @throws as `series`
   */
  seriesTail(
    runId: string,
    name: string,
    from: number,
    width: number,
  ): SeriesBucketRow[] | undefined;
  /**
   * Approximately the same for many runs, which are read together. @returns the points of each run;
   * none for a run without the series
   */
  outlines(
    runIds: readonly string[],
    name: string,
    fromX: number,
    toX: number,
    buckets: number,
  ): SeriesBucketRow[][];
  /**
   * The names of series of these runs: those with more than one point in one of them (or that every
   * run has), and those with at most one point. One name at a time, because there may be thousands;
   * undefined for each that only other runs have.
   */
  namesOfMany(runIds: readonly string[]): Generator<{ name: string; once: boolean } | undefined>;
  /** The numbers of the points that later attempts overwrote, as ranges. @throws as `series` */
  overwritten(runId: string, name: string): { first: number; last: number }[];
  fileBytes(): number;
  /** Records committed since the process started, for metrics. */
  storedSinceStart(): { steps: number; episodes: number; events: number };
  /** Number of runs with records in memory, and its approximate size. */
  rings(): { runs: number; bytes: number };
  /** Whether the last write succeeded (false while the disk is full). */
  writable(): boolean;
}

/** The only way to write telemetry. */
export interface TelemetryLog extends TelemetryReader {
  /**
   * Stores a proxy's batch with its journal position, in one transaction. @throws MosaicError
   * `unavailable` (disk full, locked) with nothing stored.
   */
  ingest(runId: string, attempt: number, batch: IngestBatch): IngestResult;
  /**
   * The same, in one transaction with other proxies' batches that arrive within some milliseconds:
   * a commit costs much more than a record. Resolves after the commit. A batch that cannot be
   * stored does not fail the others.
   */
  deliver(runId: string, attempt: number, batch: IngestBatch): Promise<IngestResult>;
  /**
   * The same for several at once, in one transaction if it can be. Each has its result or its
   * error: one that cannot be stored does not fail the others.
   */
  ingestAll(
    batches: readonly { runId: string; attempt: number; batch: IngestBatch }[],
  ): ({ result: IngestResult } | { error: unknown })[];
  /**
   * Position up to which the attempt's journal is stored. @throws MosaicError `unavailable` if the
   * database's value is damaged
   */
  journalPosition(runId: string, attempt: number): number;
  /**
   * How far each file that the attempt's proxy observes is stored; undefined if one of the values
   * is damaged.
   */
  sourceCursors(runId: string, attempt: number): SourceCursor[] | undefined;
  /**
   * A further attempt begins; nothing of it is stored yet.
   * @param resumedAt Unix milliseconds: the attempt overwrites what was recorded later; null: it
   * overwrites everything
   */
  beginAttempt(runId: string, attempt: number, resumedAt: number | null): void;
  /** Stores points that the daemon itself measured; not for a run without stored records. */
  sample(
    runId: string,
    attempt: number,
    points: readonly (readonly [name: string, value: number])[],
  ): void;
  /** Commits the batches that `deliver` has gathered. */
  commitWaiting(): void;
  /** Stores records that came without a journal (the original's Publish RPCs, MLflow's clients). */
  append(
    runId: string,
    attempt: number,
    steps: StepRecord[],
    episodes: EpisodeRecord[],
    events?: WorkerEventRecord[],
    label?: string,
  ): void;
  /**
   * Copies the telemetry of a run that has none here, from a database of the same schema. @throws
   * `already_exists`
   */
  adopt(from: DatabaseSync, runId: string): Promise<void>;
  /** Like `delete`, without waiting until the rows are removed. */
  discard(runId: string): void;
  /**
   * Removes all of a run's telemetry, in bounded chunks, and returns the space. Returns the bytes
   * that the run took in the database, approximately, because others may write meanwhile.
   */
  delete(runId: string): Promise<number>;
  /**
   * Each run's approximate share of the database's used pages, by run id. Takes a few milliseconds
   * for a hundred runs, and yields to other work.
   */
  bytesOfRuns(): Promise<Map<string, number>>;
  /**
   * Moves everything committed into the database file. @returns whether all of it is there, synced,
   * and no reader uses an earlier state
   */
  allInFile(): Promise<boolean>;
  close(): void;
}

/** The telemetry log as its readers and writers see it. Implemented by src/telemetry/store.ts. */
import type { DatabaseSync } from "node:sqlite";
import type {
  EpisodeRecord,
  StepRecord,
  StoredEpisode,
  StoredMetric,
  StoredStep,
  StoredWorkerEvent,
  WorkerEventRecord,
} from "../gen/records/record_types.ts";
import type { IngestBatch, SourceCursor } from "./ingest_batch.ts";
import type { SeriesSummary } from "./store/summaries.ts";
import type { ToldParameter } from "./store/parameter_rows.ts";
import type { TelemetryKind } from "./record_fields.ts";

export type { SeriesSummary };

export type { StoredEpisode, StoredMetric, StoredStep, StoredWorkerEvent, TelemetryKind };

export interface StoredOf {
  steps: StoredStep;
  episodes: StoredEpisode;
  events: StoredWorkerEvent;
  metrics: StoredMetric;
}

export interface RunTelemetry {
  steps: number;
  episodes: number;
  events: number;
  metrics: number;
  otherLines: number;
  malformedLines: number;
  violations: Record<string, number>;
  /** Attempt and byte offset up to which its journal is stored. */
  attempt: number;
  journalPosition: number;
  meanReward100: number | null;
  lastRecordAt: number | null;
  /** The highest step of a metric; 0: none. */
  toldStep: number;
  /** The last value of the metric that is most surely the reward of episodes; null where none is. */
  toldReward: ToldReward | null;
}

export interface ToldReward {
  /** The metric's. */
  name: string;
  value: number;
}

export type IngestResult =
  | {
    type: "stored";
    position: number;
    steps: number;
    episodes: number;
    events: WorkerEventRecord[];
    /** Seq of the last of `events`. */
    lastEvent: number;
  }
  /** Everything up to `to` was stored before (a repeated delivery). */
  | { type: "duplicate"; position: number }
  /** The batch does not begin where the store ends: the proxy must go back to `position`. */
  | { type: "gap"; position: number };

export interface SeriesBucketRow {
  firstX: number;
  lastX: number;
  min: number;
  max: number;
  mean: number;
  last: number;
  count: number;
  atMs: number;
  /** The worker's step at the bucket's last point; of other series than metrics null, and their position where there were several attempts. */
  step: number | null;
  /** Null where there was one attempt. */
  attempt: number | null;
  /** A later attempt wrote these positions again. A bucket has points of one attempt, all of them overwritten or none. */
  overwritten: boolean;
  /** The records of these positions are missing or damaged: there is no value. */
  damaged: boolean;
}

/** A run that somebody follows. To be disposed of. */
export interface FollowedRun extends Disposable {
  readonly runId: string;
  /** Aborts when the run is deleted; its reason is a MosaicError `not_found`. */
  readonly deleted: AbortSignal;
}

/** Stored telemetry as those see it who read and follow it. Reads are synchronous: SQLite is in the process. */
export interface TelemetryReader {
  /**
   * Rows with seq > since, ascending and contiguous, at most `limit` (and about 4 MiB). Only where the file is damaged are
   * seqs left out. @throws `out_of_range` below retention.
   */
  read<K extends TelemetryKind>(runId: string, kind: K, since: number, limit: number): StoredOf[K][];
  /** The newest seq; 0 when there is none. */
  head(runId: string, kind: TelemetryKind): number;
  /** Seqs of events of these kinds, after `since` up to `to`, ascending: the few among millions that tell metrics. */
  eventSeqs(runId: string, kinds: readonly string[], since: number, to: number): number[];
  /** Follows the run that has this id now, or that gets it next: another one of the same id is not taken for it. */
  follow(runId: string): FollowedRun;
  /**
   * Resolves when head(runId, kind) > since, when the run is deleted, or when the signal aborts. Costs one entry in a set
   * while it waits.
   */
  waitBeyond(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void>;
  /** Counters of a run; zeros for one that said nothing yet. */
  summary(runId: string): RunTelemetry;
  /** The series that every run has, then its metrics by name. */
  listSeries(runId: string): SeriesSummary[];
  /** The series of this name, of all runs. */
  seriesNamed(name: string): (SeriesSummary & { runId: string })[];
  /** Names of series that any run has; the first ten thousand. */
  seriesNames(): string[];
  /** What the run's program said of its parameters, each source's. */
  parameters(runId: string): ToldParameter[];
  /** Those of this name, of all runs. */
  parametersNamed(name: string): (ToldParameter & { runId: string })[];
  /** Names that any run has. */
  parameterNames(): string[];
  /**
   * Points `fromX` to `toX` (0: the last), attempt after attempt, in about so many buckets.
   * @param rough reads no more rows than it gives, for one of a multitude of lines: a bucket may begin before `fromX`, and
   *   of the newest points that no bucket has, only the last is given
   * @throws `not_found` for a name the run has no points of
   */
  series(
    runId: string,
    name: string,
    fromX: number,
    toX: number,
    buckets: number,
    rough?: boolean,
  ): SeriesBucketRow[];
  /** Roughly the same of many runs, which are read together. @returns of each run its points; none where it has no such series */
  outlines(runIds: readonly string[], name: string, fromX: number, toX: number, buckets: number): SeriesBucketRow[][];
  /**
   * The names of series of these runs: those that have more than one point in one of them (or that every run has), and
   * those of one point at most. A name at a time, because there may be thousands; undefined for each that only others have.
   */
  namesOfMany(runIds: readonly string[]): Generator<{ name: string; once: boolean } | undefined>;
  /** The numbers of the points that later attempts overwrote, as ranges. @throws as `series` */
  overwritten(runId: string, name: string): { first: number; last: number }[];
  fileBytes(): number;
  /** Records committed since the process started, for metrics. */
  storedSinceStart(): { steps: number; episodes: number; events: number };
  /** Runs whose newest records are in memory, and about how much of it they take. */
  rings(): { runs: number; bytes: number };
  /** Whether the last write succeeded (false while the disk is full). */
  writable(): boolean;
}

/** The one way to telemetry. */
export interface TelemetryLog extends TelemetryReader {
  /** Stores a proxy's batch with its journal position, in one transaction. @throws MosaicError `unavailable` (disk full, locked) with nothing stored. */
  ingest(runId: string, attempt: number, batch: IngestBatch): IngestResult;
  /**
   * The same in one transaction with what other proxies deliver within some milliseconds: a commit costs much more than a
   * record. Resolves after the commit. A batch that cannot be stored fails no other.
   */
  deliver(runId: string, attempt: number, batch: IngestBatch): Promise<IngestResult>;
  /** Up to where the attempt's journal is stored. @throws MosaicError `unavailable` where the database's answer is damaged */
  journalPosition(runId: string, attempt: number): number;
  /** How far each file that the attempt's proxy observes is stored; undefined where one of the answers is damaged. */
  sourceCursors(runId: string, attempt: number): SourceCursor[] | undefined;
  /**
   * A further attempt begins, of which nothing is stored yet.
   * @param resumedAt Unix milliseconds: what was recorded later, the attempt overwrites; null: it overwrites everything
   */
  beginAttempt(runId: string, attempt: number, resumedAt: number | null): void;
  /** Stores points that the daemon itself measured; not for a run of which nothing is stored yet. */
  sample(runId: string, attempt: number, points: readonly (readonly [name: string, value: number])[]): void;
  /** Commits at once what `deliver` has gathered. */
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
  /** Takes in the telemetry of a run that has none here, from a database of the same schema. @throws `already_exists` */
  adopt(from: DatabaseSync, runId: string): Promise<void>;
  /** As `delete` does, without waiting for the rows to go. */
  discard(runId: string): void;
  /**
   * Removes all of a run's telemetry, in bounded chunks, and gives the space back.
   * Gives the bytes that the run took in the database, to within what others wrote meanwhile.
   */
  delete(runId: string): Promise<number>;
  /** Each run's share of the database's pages in use, about, by run id. A few milliseconds for a hundred runs, in turns. */
  bytesOfRuns(): Promise<Map<string, number>>;
  /** Moves what is committed into the database file. @returns whether all is there, synced, and nobody reads a state from before */
  allInFile(): Promise<boolean>;
  close(): void;
}

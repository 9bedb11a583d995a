/**
 * The telemetry log on SQLite (docs/telemetry.md): every record once, in order, with the journal position it was read
 * from, in one transaction. Synchronous and in the daemon's own thread: a batch takes milliseconds, and what is
 * acknowledged is committed. Only checkpoints, which sync the disk, are elsewhere.
 *
 * Memory holds a state per run that was asked for (counters) and more for runs being written (rings, where series end).
 * Any failed transaction drops the run's state, so that memory never knows what the disk does not.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { STANDARD_BOUNDS } from "../base/load_limits.ts";
import { MosaicError } from "../base/errors.ts";
import { explainShortage } from "../os/shortage.ts";
import { sleep, yieldToOthers } from "../base/sleep.ts";
import { OpenedFile } from "../os/opened_file.ts";
import { type Reserve, WithReserve, withSpaceOf } from "../os/reserve.ts";
import { openWal } from "../os/wal.ts";
import type { EpisodeRecord, IngestBatch, SourceCursor, StepRecord, WorkerEventRecord } from "./batch.ts";
import { BUSY_TIMEOUT_MS, type CheckpointOptions, Checkpoints, WAL_LIMIT_BYTES } from "./store/checkpoints.ts";
import {
  type CleanSteps,
  cleanSteps,
  columnsOf,
  storableInteger,
  storableReal,
  storableText,
  storableTime,
} from "./store/storable_steps.ts";
import { BulkInsert } from "./store/bulk_insert.ts";
import { countersOf, keyOf, rowsOfRun } from "./store/moved_run.ts";
import { Deletions } from "./store/deletions.ts";
import { isFull, machineTrouble } from "./store/failures.ts";
import { GroupCommit, type Outcome, type WaitingBatch } from "./store/group_commit.ts";
import { allRows, prepareArrays, Reader } from "./store/reader.ts";
import { RowRing, StepRing } from "./store/ring.ts";
import { decimate, outline, rowOf } from "./store/rollup.ts";
import { ParameterRows, PARAMETERS_EVENT, type ToldParameter } from "./store/parameter_rows.ts";
import {
  addViolation,
  type LiveState,
  NO_BLOCKS,
  RunRows,
  type RunState,
  type SmallBlocks,
  summaryOf,
} from "./store/run_state.ts";
import { migrate } from "./store/tables.ts";
import { MAX_PARAMETERS } from "./parameters.ts";
import { msOf } from "./store/points.ts";
import { firstFrom, piecesOf, Rewinds, type Start } from "./store/rewinds.ts";
import { BASE_SERIES, SeriesRows } from "./store/series_rows.ts";
import { SeriesWriter } from "./store/series_writer.ts";
import { StepBlocks } from "./store/step_blocks.ts";
import { joinedSteps } from "./store/step_block.ts";
import { opened, placed } from "./store/sealed_steps.ts";
import { type SeriesSummary, Summaries } from "./store/summaries.ts";
import { SourceCursors } from "./store/source_cursors.ts";
import { StepWriter } from "./store/step_writer.ts";
import { bytesOfRuns } from "./store/run_bytes.ts";
import { Waiters } from "./store/row_waiters.ts";
import {
  EPISODE_COLUMNS,
  episodeChanged,
  episodeRow,
  storedEpisode,
  storedWorkerEvent,
  WORKER_EVENT_COLUMNS,
  workerEventRow,
} from "../gen/records/record_rows.ts";
import type {
  FollowedRun,
  IngestResult,
  RunTelemetry,
  SeriesBucketRow,
  StoredEpisode,
  StoredOf,
  StoredWorkerEvent,
  TelemetryKind,
  TelemetryLog,
} from "./types.ts";

export interface StoreOptions {
  /** "full" survives power loss: every commit is synced to the disk. */
  durability?: "normal" | "full";
  now?: () => number;
  /** Steps kept in memory per run. */
  ringSize?: number;
  /** Memory of all runs' rings; one run's has at most a sixteenth of it. */
  ringBytes?: number;
  /** Episodes kept in memory per run. */
  episodeRing?: number;
  /** The database may not grow beyond; reached, it behaves like a full disk. */
  maxBytes?: number;
  checkpoints?: CheckpointOptions;
  /** Steps of small blocks before these become one, and of one that is not small. "none": all are rows, as once. */
  blocks?: { steps?: number; direct?: number } | "none";
  /** Space kept for a full disk; the log is never larger, so that it can always be moved into the database. */
  reserve?: Reserve;
}

/** Of a new database: every commit writes whole pages. Those of earlier versions have 8192. */
const PAGE_BYTES = 4096;
/** Pages at the ends of tables, which every commit of a run writes. */
const PAGES_BYTES = 8 * PAGE_BYTES;
const CACHE_KIB = 16 * 1024;
/** One answer of `read`. */
const READ_BYTES = 4 * 1024 * 1024;
const READ_ROWS = 4096;
const EVENT_RING = 256;
/** A run not written for so long gives its rings back. */
const IDLE_MS = 60_000;
const SWEEP_MS = 5_000;
/** After a failed write, how long nobody may have tried again before `writable` tries itself. */
const PROBE_MS = 5_000;
/** Runs whose counters are in memory. */
const MAX_STATES = 20_000;
/** Rows of a batch above this average, or batches above this size, mark a run as having large rows. */
const WIDE_ROW = 1024;
const WIDE_BATCH = 1024 * 1024;

/** Small blocks become one when they have so many steps, so much text, or are so many; one of `direct` steps is not small. */
const BLOCKS = { steps: 1024, direct: 256 };
const BLOCK_TEXT = 1024 * 1024;
const MOST_SMALL = 64;
/** More rows than this wait for the background, which seals so many at a time. */
const MOST_WAITING = 4096;
const SEAL_CHUNK = 2048;
/** A silent run's rows become a block if there are so many. */
const WORTH_A_BLOCK = 64;
const SEAL_EVERY_MS = 30_000;
/** Sealing in the background takes a tenth of the time. */
const SEAL_PAUSE_FACTOR = 9;

const STORABLE = { integer: storableInteger, real: storableReal, text: storableText, time: storableTime };
/** Kinds of events whose numbers are no curve. */
const NO_CURVES = new Set([
  ...["text", "histogram", "artifact", "journal_lost", "records_refused"],
  ...["source_observed", "source_problem"],
]);
const NO_REWARD = "store: episode without a reward";
const TOO_MANY_PARAMETERS = `parameters: more than ${MAX_PARAMETERS} of one source are not stored`;
const CLAMPED = "store: value could not be stored as it was and was replaced";

/** What is stored for one run. */
interface Delivery {
  runId: string;
  attempt: number;
  steps: IngestBatch["steps"];
  episodes: readonly EpisodeRecord[];
  events: readonly WorkerEventRecord[];
  otherLines: number;
  malformedLines: number;
  violations: Record<string, number>;
  /** Journal positions; none for records that came without a journal. */
  journal: { from: number; to: number } | undefined;
  /** Of another source, whose cursor then is stored. */
  source?: SourceCursor;
  label: string;
}

/** Steps that are written: how many, of how many bytes, and their columns where those were open. */
interface StoredSteps {
  n: number;
  bytes: number;
  columns: CleanSteps | undefined;
}

/** A delivery whose rows are written and not yet committed. */
interface Written {
  runId: string;
  attempt: number;
  state: RunState;
  firstStep: number;
  steps: StoredSteps;
  episodes: StoredEpisode[];
  events: StoredWorkerEvent[];
  /** Seq of the last of `events`. */
  lastEvent: number;
}

/** The database's file is another one, or none. */
class FileGone extends MosaicError {}

/** The stored position was not what memory said: somebody else wrote to the file. */
class StalePosition extends Error {}

export class TelemetryStore implements TelemetryLog {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #now: () => number;
  readonly #options: StoreOptions;
  readonly #checkpoints: Checkpoints;
  readonly #deletions: Deletions;
  readonly #rows: RunRows;
  readonly #reader: Reader;
  readonly #stepWriter: StepWriter;
  readonly #blocks: StepBlocks;
  readonly #episodeWriter: BulkInsert;
  readonly #eventWriter: BulkInsert;
  readonly #parameters: ParameterRows;
  readonly #seriesRows: SeriesRows;
  readonly #summaries: Summaries;
  readonly #seriesWriter: SeriesWriter;
  readonly #rewinds: Rewinds;
  readonly #seriesOf: StatementSync;
  readonly #seriesName: StatementSync;
  readonly #cursors: SourceCursors;
  readonly #recentRewards: StatementSync;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #file: OpenedFile;
  readonly #reserved: WithReserve;
  readonly #group: GroupCommit;
  readonly #waiters = new Waiters();
  readonly #states = new Map<string, RunState>();
  readonly #ringsLimit: number;
  #ringBytes = 0;
  /** By the transaction that is under way. */
  #written: Written[] = [];
  #sweptAt = 0;
  #writable = true;
  /** When a write was last known to fail. */
  #triedAt = 0;
  readonly #stored = { steps: 0, episodes: 0, events: 0 };
  readonly #sealTimer: ReturnType<typeof setInterval>;
  #sealing = false;
  /** Whether runs that were not asked for since the start were looked at. */
  #sealedOlder = false;
  #closed = false;

  private constructor(db: DatabaseSync, path: string, options: StoreOptions) {
    this.#db = db;
    this.#path = path;
    this.#file = new OpenedFile(path);
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#ringsLimit = options.ringBytes ?? STANDARD_BOUNDS.ringBytes;
    const limitBytes = options.checkpoints?.limitBytes ?? WAL_LIMIT_BYTES;
    this.#checkpoints = new Checkpoints(db, path, {
      ...options.checkpoints,
      limitBytes: Math.min(limitBytes, options.reserve?.bytes ?? limitBytes),
      onFull: () => this.#reserved.relieve(),
    });
    this.#reserved = new WithReserve(options.reserve, {
      isFull: (error) => error instanceof MosaicError && isFull(error.cause),
      full: () =>
        new MosaicError("unavailable", `telemetry database ${path} cannot grow: the disk is full`, {
          hint: "Free space on its disk, or delete runs; work goes on by itself.",
        }),
      logBytes: () => this.#checkpoints.walBytes(),
      emptyLog: () => this.#checkpoints.empty(),
    });
    this.#deletions = new Deletions(db, (bytes) => this.#checkpoints.wrote(bytes));
    this.#blocks = new StepBlocks(db, (runKey, first, last, why) => {
      const run = db.prepare("SELECT run_id FROM telemetry_runs WHERE run_key = ?").get(runKey)?.run_id;
      options.checkpoints?.warn?.(
        `steps ${first} to ${last} of run ${run} cannot be read: ${why}; stop the daemon and run: mosaic doctor --repair`,
      );
    });
    this.#rows = new RunRows(db, (runKey) => this.#blocks.sealedTo(runKey), (runId) => {
      options.checkpoints?.warn?.(`the counters of run ${runId} were damaged: its rows were counted again`);
    });
    this.#reader = new Reader(db);
    this.#stepWriter = new StepWriter(db);
    this.#episodeWriter = new BulkInsert(db, "episodes", EPISODE_COLUMNS);
    this.#eventWriter = new BulkInsert(db, "worker_events", WORKER_EVENT_COLUMNS);
    this.#parameters = new ParameterRows(db);
    this.#seriesRows = new SeriesRows(db, (runKey, first, last) => this.#blocks.rewards(runKey, first, last));
    this.#summaries = new Summaries(db, this.#seriesRows);
    this.#rewinds = new Rewinds(db);
    this.#seriesWriter = new SeriesWriter(db, this.#seriesRows, this.#summaries, this.#rewinds);
    this.#cursors = new SourceCursors(db);
    this.#seriesOf = prepareArrays(
      db,
      "SELECT series, points, last_seq FROM series INDEXED BY series_by_name WHERE name = ? AND run_key = ?",
    );
    this.#seriesName = prepareArrays(db, "SELECT name FROM series WHERE run_key = ? AND series = ?");
    this.#recentRewards = prepareArrays(
      db,
      "SELECT total_reward FROM episodes WHERE run_key = ? ORDER BY seq DESC LIMIT 100",
    );
    this.#group = new GroupCommit({
      commit: (group) => this.#ingestGroup(group),
      ready: () => this.#checkpoints.caughtUp(),
      now: () => performance.now(),
      pageBytes: pageBytesOf(db),
    });
    this.#sealTimer = setInterval(() => this.sealWaiting(), SEAL_EVERY_MS);
    Deno.unrefTimer(this.#sealTimer);
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
  }

  /**
   * Opens the database, creating it when there is none, and goes on with deletions that were cut short.
   * @throws MosaicError `failed_precondition` (newer schema), `unavailable` (corrupt, not writable, locked).
   */
  static open(path: string, options: StoreOptions = {}): TelemetryStore {
    let db: DatabaseSync | undefined;
    try {
      // Only the owner may read what workers say; SQLite gives its other files the same mode.
      Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
      if (Deno.statSync(path).size === 0) prepareNew(path);
      const opened = openWal(path, BUSY_TIMEOUT_MS, options.reserve);
      db = opened.db;
      db.exec(`PRAGMA synchronous = ${options.durability === "full" ? "FULL" : "NORMAL"};
        PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`);
      if (options.maxBytes !== undefined) {
        db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(options.maxBytes / pageBytesOf(db)))}`);
      }
      withSpaceOf(options.reserve, isFull, () => migrate(opened.db, path));
      // The checkpoint thread's connection finds no place beside one that is alone.
      const checkpoints = opened.alone ? { ...options.checkpoints, mode: "inline" as const } : options.checkpoints;
      const store = new TelemetryStore(db, path, { ...options, checkpoints });
      store.#reserved.begin();
      store.#deletions.resume();
      store.#summariseOld();
      return store;
    } catch (error) {
      db?.close();
      if (error instanceof MosaicError) throw error;
      if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied) {
        throw new MosaicError("unavailable", `telemetry database ${path} cannot be opened: ${error.message}`, {
          hint: "Check that its directory exists and may be written.",
          cause: error,
        });
      }
      throw machineTrouble(error, path) ?? explainShortage(error, `open the telemetry database ${path}`);
    }
  }

  /** In the background; what is left when it fails or the store is closed is done after the next start. */
  #summariseOld(): void {
    const write = (work: () => void) => this.#transaction(work);
    this.#summaries.summariseOld(write, () => this.#closed).catch(() => {
      // The disk is full or the file is damaged: whoever writes next says so.
    });
  }

  ingest(runId: string, attempt: number, batch: IngestBatch): IngestResult {
    requireWhole(attempt, batch);
    for (let tries = 1;; tries++) {
      try {
        return this.#transaction(() => this.#ingestOne(runId, attempt, batch));
      } catch (error) {
        // The state was dropped, so the next try sees the position that is really stored.
        if (!(error instanceof StalePosition) || tries === 3) throw error;
      }
    }
  }

  async deliver(runId: string, attempt: number, batch: IngestBatch): Promise<IngestResult> {
    requireWhole(attempt, batch);
    // Somebody waits to see that the attempt has begun.
    return await this.#group.add({ runId, attempt, batch }, batch.from === 0);
  }

  sourceCursors(runId: string, attempt: number): SourceCursor[] {
    const state = this.#state(runId);
    return state === undefined ? [] : this.#cursors.of(state.runKey, attempt);
  }

  commitWaiting(): void {
    this.#group.flush();
  }

  /** One transaction for all; where that fails, one for each, so that it fails only whom it must. */
  #ingestGroup(group: WaitingBatch[]): Outcome[] {
    if (group.length > 1) {
      try {
        const results = this.#transaction(() =>
          group.map(({ runId, attempt, batch }) => this.#ingestOne(runId, attempt, batch))
        );
        return results.map((result) => ({ result }));
      } catch (error) {
        // Another program's lock was waited for once; so it would be for each.
        if (error instanceof MosaicError && error.code === "unavailable" && !isFull(error.cause)) {
          return group.map(() => ({ error }));
        }
      }
    }
    return group.map(({ runId, attempt, batch }) => {
      try {
        return { result: this.ingest(runId, attempt, batch) };
      } catch (error) {
        return { error };
      }
    });
  }

  /** Inside a transaction. */
  #ingestOne(runId: string, attempt: number, batch: IngestBatch): IngestResult {
    const { source, ...records } = batch;
    const { from, to } = records;
    const state = this.#state(runId);
    const position = state === undefined
      ? 0
      : source === undefined
      ? state.positions.get(attempt) ?? 0
      : this.#cursors.serial(state.runKey, attempt, source.name);
    if (from !== position || to < from) {
      return to <= position ? { type: "duplicate", position } : { type: "gap", position };
    }
    const place = source === undefined
      ? { journal: { from, to }, label: "" }
      : { journal: undefined, source: { ...source, serial: to }, label: source.label };
    const { steps, episodes, lastEvent } = this.#write({ ...records, ...place, runId, attempt });
    return {
      ...{ type: "stored", position: to, steps: steps.n, episodes: episodes.length },
      ...{ events: batch.events.slice(), lastEvent },
    };
  }

  append(
    runId: string,
    attempt: number,
    steps: StepRecord[],
    episodes: EpisodeRecord[],
    events: WorkerEventRecord[] = [],
    label = "",
  ): void {
    const none = { events, otherLines: 0, malformedLines: 0, violations: {}, journal: undefined, label };
    this.#transaction(() => this.#write({ runId, attempt, steps: columnsOf(steps), episodes, ...none }));
  }

  sample(runId: string, attempt: number, points: readonly (readonly [name: string, value: number])[]): void {
    const state = this.#state(runId);
    if (state === undefined || state.attempt !== attempt) return;
    this.#transaction(() => {
      const { heads: { steps, events } } = state;
      this.#live(state).touchedAt = this.#now();
      this.#written.push({
        ...{ runId, attempt, state, firstStep: steps + 1, steps: { n: 0, bytes: 0, columns: undefined } },
        ...{ episodes: [], events: [], lastEvent: events },
      });
      this.#seriesWriter.from(attempt, "mosaic");
      this.#seriesWriter.points(state, points, `${Math.floor(this.#now())}000000`);
    });
  }

  read<K extends TelemetryKind>(runId: string, kind: K, since: number, limit: number): StoredOf[K][] {
    const state = this.#state(runId);
    if (state === undefined || since >= state.heads[kind] || limit < 1) return [];
    if (since + 1 < state.firsts[kind]) {
      throw new MosaicError(
        "out_of_range",
        `${kind} of run ${runId} are kept from seq ${state.firsts[kind]}; asked for those after ${since}`,
        { hint: `Read again since ${state.firsts[kind] - 1}.` },
      );
    }
    const rows = Math.min(limit, READ_ROWS, state.heads[kind] - since);
    return this.#read(state, kind, since, rows) as StoredOf[K][];
  }

  eventSeqs(runId: string, kinds: readonly string[], since: number, to: number): number[] {
    const state = this.#state(runId);
    return state === undefined ? [] : this.#reader.eventSeqs(state.runKey, kinds, since, to);
  }

  head(runId: string, kind: TelemetryKind): number {
    return this.#state(runId)?.heads[kind] ?? 0;
  }

  follow(runId: string): FollowedRun {
    return this.#waiters.follow(runId);
  }

  waitBeyond(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void> {
    if (this.head(runId, kind) > since) return Promise.resolve();
    return this.#waiters.wait(runId, kind, since, signal);
  }

  summary(runId: string): RunTelemetry {
    return summaryOf(this.#state(runId));
  }

  listSeries(runId: string): SeriesSummary[] {
    const state = this.#state(runId);
    return state === undefined ? [] : this.#summaries.ofRun(state.runKey);
  }

  seriesNamed(name: string): (SeriesSummary & { runId: string })[] {
    return this.#summaries.named(name);
  }

  *namesOfMany(runIds: readonly string[]): Generator<{ name: string; once: boolean } | undefined> {
    const keys = runIds.map((id) => this.#state(id)?.runKey).filter((key) => key !== undefined);
    yield* this.#summaries.namesOf(keys.sort((a, b) => a - b));
  }

  seriesNames(): string[] {
    return this.#summaries.names();
  }

  parameters(runId: string): ToldParameter[] {
    const state = this.#state(runId);
    return state === undefined ? [] : this.#parameters.ofRun(state.runKey);
  }

  parametersNamed(name: string): (ToldParameter & { runId: string })[] {
    return this.#parameters.named(name);
  }

  parameterNames(): string[] {
    return this.#parameters.names();
  }

  /** @throws `not_found` for a name the run has no points of. */
  series(runId: string, name: string, fromX: number, toX: number, buckets: number, rough = false): SeriesBucketRow[] {
    const found = this.#pieces(runId, name);
    if (found === undefined) return [];
    const { pieces, source, rewound, base, points, kept } = found;
    const first = Math.max(1, Math.floor(fromX));
    const last = toX > 0 ? Math.min(toX, points) : points;
    const wanted = pieces.filter((p) => p.first <= last && p.last >= first)
      .map((p) => ({ ...p, first: Math.max(first, p.first), last: Math.min(last, p.last) }));
    return wanted.flatMap(({ attempt, overwritten, shift, ...piece }) => {
      const share = wanted.length === 1 ? 1 : (piece.last - piece.first + 1) / (last - first + 1);
      const most = Math.max(1, Math.floor(buckets * share));
      const rows = rough && !rewound
        ? outline(source, piece.first, piece.last, points, most).map(rowOf)
        : decimate(source, piece.first, piece.last, most, kept);
      return rows.map((row): SeriesBucketRow => ({
        ...row,
        step: rewound && base ? row.lastX + shift : row.step,
        attempt: rewound ? attempt : null,
        overwritten,
      }));
    });
  }

  overwritten(runId: string, name: string): { first: number; last: number }[] {
    return this.#pieces(runId, name)?.pieces.filter((p) => p.overwritten).map(({ first, last }) => ({ first, last })) ??
      [];
  }

  /** A series in pieces; undefined where the run has no points of one that every run has. */
  #pieces(runId: string, name: string) {
    const state = this.#state(runId);
    const row = state === undefined ? undefined : allRows(this.#seriesOf, name, state.runKey)[0];
    if (state === undefined || row === undefined) {
      if ((BASE_SERIES as readonly string[]).includes(name)) return undefined;
      throw new MosaicError("not_found", `run ${runId} has no series "${name}"`);
    }
    const [series, points, lastSeq] = row as [number, number, number];
    const source = this.#seriesRows.source(state.runKey, series, points, lastSeq);
    const starts = this.#rewinds.of(state.runKey, series);
    const base = series <= BASE_SERIES.length;
    const kept = base ? state.firsts[series === 1 ? "steps" : "episodes"] : undefined;
    const stepAt = (x: number) => source.points(x, x)[0]?.step ?? 0;
    const pieces = piecesOf(starts, points, base ? undefined : stepAt);
    return { pieces, source, points, base, kept, rewound: starts.length > 0 };
  }

  beginAttempt(runId: string, attempt: number, resumedAt: number | null): void {
    const state = this.#state(runId);
    if (state === undefined || state.attempt >= attempt) return;
    const { steps, episodes } = state.heads;
    const stepStarts = this.#rewinds.of(state.runKey, 1);
    const episodeStarts = this.#rewinds.of(state.runKey, 2);
    const positionIn = (kind: "steps" | "episodes", head: number, starts: Start[]) => {
      if (resumedAt === null) return 1;
      const after = firstFrom(
        state.firsts[kind],
        head,
        (seq) => msOf(this.read(runId, kind, seq - 1, 1)[0]?.tsNs ?? "0") > resumedAt,
      );
      const part = starts.findLast((s) => s.first < after);
      return part === undefined ? after : after - part.first + part.position;
    };
    const stepPosition = positionIn("steps", steps, stepStarts);
    const episodePosition = positionIn("episodes", episodes, episodeStarts);
    this.#transaction(() => {
      for (
        const [series, head, position] of [[1, steps, stepPosition], [2, episodes, episodePosition], [
          3,
          episodes,
          episodePosition,
        ]] as const
      ) {
        if (head > 0) this.#rewinds.put(state.runKey, series, { attempt, first: head + 1, position });
      }
    });
    // What is written next begins at the new position.
    this.#dropState(runId);
  }

  async delete(runId: string): Promise<number> {
    this.commitWaiting();
    const state = this.#state(runId);
    if (state === undefined) {
      this.#waiters.deleted(runId);
      return 0;
    }
    const before = this.usedBytes();
    await this.#onFullDisk(() => {
      this.#deletions.begin(runId, state.runKey);
      this.#dropState(runId);
      this.#waiters.deleted(runId);
    });
    this.#blocks.forget(state.runKey);
    await this.#onFullDisk(() => this.#deletions.remove(state.runKey));
    // Closed meanwhile: the rest goes at the next start.
    if (this.#closed) return 0;
    const freed = Math.max(0, before - this.usedBytes());
    // The file shrinks when the log is moved into it.
    await this.#checkpoints.run();
    this.#reserved.refill();
    return freed;
  }

  /**
   * Gives a run the telemetry of another, which then is none; what it had itself is removed, now or after the next start.
   * For who has read a journal anew: nobody may be writing to either.
   */
  replace(runId: string, by: string): void {
    this.#transaction(() => {
      this.#giveUp(runId);
      this.#db.prepare("UPDATE telemetry_runs SET run_id = ? WHERE run_id = ?").run(runId, by);
    });
    for (const id of [runId, by]) this.#dropState(id);
    this.#deletions.resume();
  }

  /** Until all is there, the rows are those of a run that is being deleted: what is cut short goes at the next start. */
  async adopt(from: DatabaseSync, runId: string): Promise<void> {
    if (this.#state(runId) !== undefined) {
      throw new MosaicError("already_exists", `run ${runId} has telemetry already`);
    }
    const itsKey = keyOf(from, runId);
    if (itsKey === undefined) return;
    let runKey = 0;
    this.#transaction(() => {
      const insert = this.#db.prepare("INSERT INTO telemetry_runs (run_id, deleting) VALUES (?, 1)");
      runKey = Number(insert.run(`adopted:${crypto.randomUUID()}`).lastInsertRowid);
    });
    try {
      for (const { rows, insert } of rowsOfRun(from, itsKey)) {
        const all = rows()[Symbol.iterator]();
        for (let last = false; !last;) {
          let bytes = 0;
          this.#transaction(() => {
            const statement = this.#db.prepare(insert);
            while (bytes < ADOPTED_BYTES) {
              const { value, done } = all.next();
              if (done) return void (last = true);
              statement.run(runKey, ...value);
              bytes += 100 + value.reduce((sum: number, cell) => sum + lengthOf(cell), 0);
            }
          });
          this.#checkpoints.wrote(bytes + PAGES_BYTES);
          await this.#checkpoints.caughtUp();
          await yieldToOthers();
        }
      }
      const { columns, rows } = countersOf(from, runId);
      const [counters] = [...rows()];
      this.#transaction(() =>
        this.#db.prepare(`UPDATE telemetry_runs SET ${columns.map((column) => `${column} = ?`).join(", ")}
          WHERE run_key = ?`).run(...counters!, runKey)
      );
    } catch (error) {
      this.#deletions.resume();
      throw error;
    }
  }

  /** As `delete` does, without waiting for the rows to go. */
  discard(runId: string): void {
    this.#transaction(() => this.#giveUp(runId));
    this.#dropState(runId);
    this.#deletions.resume();
  }

  #giveUp(runId: string): void {
    const state = this.#state(runId);
    if (state === undefined) return;
    this.#blocks.forget(state.runKey);
    this.#deletions.begin(runId, state.runKey);
  }

  /** Bytes of the database's pages that hold something. */
  usedBytes(): number {
    const pragma = (name: string) => Number(Object.values(this.#db.prepare(`PRAGMA ${name}`).get()!)[0]);
    return (pragma("page_count") - pragma("freelist_count")) * pageBytesOf(this.#db);
  }

  fileBytes(): number {
    let bytes = this.#checkpoints.walBytes();
    try {
      bytes += Deno.statSync(this.#path).size;
    } catch {
      // Somebody removed the file under us: the next write says so.
    }
    return bytes;
  }

  bytesOfRuns(): Promise<Map<string, number>> {
    return bytesOfRuns(this.#db, () => this.usedBytes());
  }

  storedSinceStart(): { steps: number; episodes: number; events: number } {
    return { ...this.#stored };
  }

  rings(): { runs: number; bytes: number } {
    let runs = 0;
    for (const { live } of this.#states.values()) if (live !== undefined) runs++;
    return { runs, bytes: this.#ringBytes };
  }

  writable(): boolean {
    if (this.#reserved.short) return false;
    // Perhaps nobody tries any more: then a commit of nothing tells whether the trouble is over.
    if (!this.#writable && Math.abs(this.#now() - this.#triedAt) >= PROBE_MS) {
      this.#triedAt = this.#now();
      this.#writable = this.#probe();
    }
    return this.#writable;
  }

  #probe(): boolean {
    try {
      this.#requireFile();
      this.#reserved.require();
      const { user_version } = this.#db.prepare("PRAGMA user_version").get() as { user_version: number };
      this.#begin.run();
      this.#db.exec(`PRAGMA user_version = ${user_version}`);
      this.#commit.run();
      return true;
    } catch {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      return false;
    }
  }

  async allInFile(): Promise<boolean> {
    return !this.#closed && await this.#checkpoints.all();
  }

  close(): void {
    if (this.#closed) return;
    this.commitWaiting();
    this.#closed = true;
    clearInterval(this.#sealTimer);
    this.#deletions.close();
    this.#checkpoints.close();
    this.#states.clear();
    this.#db.close();
  }

  // ------------------------------------------------------------------------------------------------ writing

  /** Commits what `work` writes. On any failure nothing is stored, in memory neither. */
  #transaction<T>(work: () => T): T {
    return this.#reserved.write(() => this.#tryTransaction(work));
  }

  #tryTransaction<T>(work: () => T): T {
    const written = this.#written = [] as Written[];
    try {
      this.#requireFile();
      this.#begin.run();
      const result = work();
      for (const state of new Set(written.map((one) => one.state))) this.#finish(state);
      this.#commit.run();
      this.#committed(written);
      return result;
    } catch (error) {
      this.#rollBack();
      if (error instanceof StalePosition) throw error;
      if (error instanceof FileGone) this.#writable = false;
      const trouble = machineTrouble(error, this.#path);
      if (trouble === undefined) throw error;
      this.#writable = false;
      this.#triedAt = this.#now();
      throw trouble;
    }
  }

  /** What would be written now nobody would find again; the journals keep it. @throws MosaicError `unavailable` */
  #requireFile(): void {
    const what = this.#file.check();
    if (what === "same") return;
    throw new FileGone("unavailable", `telemetry database ${this.#path} was ${what} while the daemon uses it`, {
      hint:
        "Nothing is stored any more; workers go on, and their logs keep everything. Stop the daemon (runs live on), run " +
        "mosaic doctor --repair (it stores again what the logs have), and start it.",
    });
  }

  /** Writes a delivery's rows; what is one row a run is written by `#finish`, before the commit. */
  #write(delivery: Delivery): Written {
    const { runId, attempt } = delivery;
    const now = this.#now();
    const arrivalNs = `${Math.max(0, Math.floor(now))}000000`;
    const state = this.#state(runId) ?? this.#adopt(runId, this.#rows.create(runId));
    const firstStep = state.heads.steps + 1;
    const written: Written = {
      ...{ runId, attempt, state, firstStep, lastEvent: state.heads.events + delivery.events.length },
      ...{ steps: { n: 0, bytes: 0, columns: undefined }, episodes: [], events: [] },
    };
    this.#written.push(written);
    const live = this.#live(state);
    live.touchedAt = now;
    if (delivery.journal !== undefined) {
      const { from, to } = delivery.journal;
      if (!this.#rows.advance(state.runKey, attempt, from, to)) throw new StalePosition();
      state.positions.set(attempt, to);
    }
    if (delivery.source !== undefined) this.#cursors.put(state.runKey, attempt, delivery.source);
    this.#seriesWriter.from(attempt, delivery.label);
    state.attempt = Math.max(state.attempt, attempt);
    state.otherLines += storableInteger(delivery.otherLines);
    state.malformedLines += storableInteger(delivery.malformedLines);
    for (const kind in delivery.violations) {
      addViolation(state, storableText(kind), storableInteger(delivery.violations[kind]));
    }

    if (delivery.steps.n > 0) written.steps = this.#storeSteps(state, attempt, delivery.steps, arrivalNs);
    written.episodes = delivery.episodes.map((record) => this.#storeEpisode(state, attempt, record, arrivalNs));
    written.events = delivery.events.map((record) => this.#storeEvent(state, attempt, record, arrivalNs));
    if (written.episodes.length > 0) state.meanReward100 = meanOfFinite(live.recentRewards);
    if (written.steps.n + written.episodes.length + written.events.length > 0) state.lastRecordAt = now;
    return written;
  }

  #storeSteps(state: RunState, attempt: number, steps: IngestBatch["steps"], arrivalNs: string): StoredSteps {
    const first = state.heads.steps + 1;
    if ("block" in steps && this.#sealRows(state, first)) {
      this.#writeBlock(state, true);
      const { n, block, labels, clamped, curve, infoJson } = steps;
      const { agentId, workerId, policyLabel, backend } = labels;
      const source = this.#rows.sourceKey(state, agentId, workerId, policyLabel, backend);
      const whole = placed(steps, { first, attempt, source, arrivalNs });
      this.#blocks.put(state.runKey, whole);
      state.sealed = first + n - 1;
      this.#seriesWriter.steps(state, first, { ...curve, tsNs: (i) => curve.tsNs(i) || arrivalNs }, infoJson);
      this.#counted(state, n, block.raw, clamped);
      return { n, bytes: whole.hot.length + whole.body.length, columns: undefined };
    }
    const columns = "block" in steps ? opened(steps, arrivalNs) : cleanSteps(steps, arrivalNs);
    const { n, reward = 0, tsNs, infoJson, textLength, clamped } = columns;
    if (n > 0) {
      this.#writeSteps(state, first, attempt, columns, this.#sources(state, columns));
      this.#seriesWriter.steps(state, first, { n, reward, tsNs: (i) => tsNs[i]! }, infoJson);
    }
    this.#counted(state, n, textLength, clamped);
    return { n, bytes: textLength + 60 * n, columns };
  }

  #counted(state: RunState, n: number, textLength: number, clamped: number): void {
    state.heads.steps += n;
    addViolation(state, CLAMPED, clamped);
    if (textLength > WIDE_BATCH || textLength / n > WIDE_ROW) state.wide = true;
  }

  /**
   * Makes a block of the rows of an earlier version that wait; false where that is for the background, as in a database older
   * than blocks.
   */
  #sealRows(state: RunState, first: number): boolean {
    if (this.#options.blocks === "none") return false;
    const { runKey, sealed } = state;
    const waiting = first - 1 - sealed;
    if (waiting === 0) return true;
    const tail = waiting <= MOST_WAITING ? this.#tail(state, waiting) : undefined;
    if (tail?.first !== sealed + 1 || tail.n !== waiting) return false;
    state.sealed = this.#blocks.write(runKey, tail.first, tail);
    this.#blocks.removeTail(runKey, sealed, state.sealed);
    return true;
  }

  /** Steps for the block that is written with the commit; behind rows that wait, rows. */
  #writeSteps(state: RunState, first: number, attempt: number, steps: CleanSteps, source: number[] | number): void {
    if (!this.#sealRows(state, first)) return this.#stepWriter.insert(state.runKey, first, attempt, steps, source);
    state.live!.unsealed.push({ ...steps, attempt, source });
    state.sealed += steps.n;
  }

  /**
   * Writes the transaction's steps so far as a block: blocks of all runs follow each other in the file, so a commit writes the
   * same few pages however many runs are in it. When there are enough small ones, they are one with it.
   * @param close what follows is a block by itself
   */
  #writeBlock(state: RunState, close: boolean): void {
    const { runKey, small } = state;
    const unsealed = state.live!.unsealed.splice(0);
    const own = { blocks: 1, steps: 0, text: 0 };
    for (const { n, textLength } of unsealed) {
      own.steps += n;
      own.text += textLength;
    }
    const all = { blocks: small.blocks + 1, steps: small.steps + own.steps, text: small.text + own.text };
    const { steps: enough, direct } = { ...BLOCKS, ...this.#options.blocks as object };
    const full = ({ steps, text }: SmallBlocks) =>
      close || own.steps >= direct || steps >= enough || text >= BLOCK_TEXT;
    const join = small.blocks > 0 && (full(all) || all.blocks > MOST_SMALL);
    const first = state.sealed - own.steps + 1;
    const before = join ? this.#blocks.take(runKey, first - small.steps, first - 1) : undefined;
    const parts = [...before ?? [], ...unsealed];
    if (parts.length > 0) {
      this.#blocks.write(runKey, before === undefined ? first : first - small.steps, joinedSteps(parts));
    }
    const newest = before !== undefined ? { ...all, blocks: 1 } : join ? own : all;
    state.small = full(newest) ? NO_BLOCKS : newest;
  }

  /** Rows that wait, as far as they are contiguous and memory allows. */
  #tail(state: RunState, most: number) {
    const { runKey, sealed, wide } = state;
    const fitting = wide ? this.#reader.stepsThatFit(runKey, sealed, most, READ_BYTES) : most;
    return this.#blocks.tail(runKey, sealed, fitting);
  }

  /**
   * Moves rows that wait into blocks, in the background: those of silent runs and of databases older than blocks; and makes
   * one of small blocks. May end at any time; the next one goes on.
   */
  async sealWaiting(): Promise<void> {
    if (this.#sealing || this.#closed) return;
    this.#sealing = true;
    let sealed = 0;
    try {
      for (const runId of this.#runsThatWait()) {
        sealed += await this.#sealRun(runId);
        await yieldToOthers();
      }
      this.#sealedOlder = true;
      if (sealed > MOST_WAITING && !this.#closed) await this.#deletions.giveBack();
    } catch (error) {
      if (machineTrouble(error, this.#path) === undefined) throw error;
    } finally {
      this.#sealing = false;
    }
  }

  async #sealRun(runId: string): Promise<number> {
    let sealed = 0;
    try {
      while (!this.#closed) {
        const start = performance.now();
        const n = this.#sealChunk(runId);
        if (n === 0) break;
        sealed += n;
        await sleep(SEAL_PAUSE_FACTOR * (performance.now() - start));
      }
      for (let before: number | undefined = Infinity; !this.#closed && before !== undefined;) {
        before = this.#mergeBlocks(runId, before);
        await yieldToOthers();
      }
    } catch (error) {
      // Of a full disk or a damaged page those tell who write or read next; the rows can wait, and other runs need not.
      if (!(error instanceof MosaicError) && machineTrouble(error, this.#path) === undefined) throw error;
    }
    return sealed;
  }

  /** Of the newest small blocks before a seq. @returns the seq before which there may be more */
  #mergeBlocks(runId: string, before: number): number | undefined {
    const state = this.#state(runId);
    if (state === undefined) return undefined;
    // The newest ones of a run that is being written become one with its next batches.
    const end = isSilent(state, this.#now()) ? before : Math.min(before, state.sealed - state.small.steps + 1);
    const firsts = this.#blocks.smallOnes(state.runKey, end);
    if (firsts.length < 2) return undefined;
    let merged: boolean;
    try {
      merged = this.#transaction(() => this.#blocks.merge(state.runKey, firsts));
    } catch (error) {
      if (error instanceof MosaicError || machineTrouble(error, this.#path) !== undefined) throw error;
      // One is damaged: its readers say so, and the others can stay as they are.
      return undefined;
    }
    if (!merged) return undefined;
    if (firsts.at(-1)! > state.sealed - state.small.steps) state.small = NO_BLOCKS;
    this.#checkpoints.wrote(PAGES_BYTES);
    return firsts[0];
  }

  #runsThatWait(): string[] {
    const older = this.#sealedOlder ? [] : this.#db.prepare(
      `SELECT run_id FROM telemetry_runs r WHERE deleting = 0 AND steps > ifnull((SELECT first_seq + n - 1
        FROM step_blocks b WHERE b.run_key = r.run_key ORDER BY first_seq DESC LIMIT 1), 0)`,
    ).all().map((row) => String(row.run_id));
    const known = [...this.#states].filter(([, { heads, sealed, live }]) => live !== undefined || heads.steps > sealed)
      .map(([runId]) => runId);
    return [...new Set([...older, ...known])];
  }

  /** @returns how many rows are in a block now */
  #sealChunk(runId: string): number {
    const state = this.#state(runId);
    if (state === undefined) return 0;
    if (!isSilent(state, this.#now()) && state.heads.steps - state.sealed <= MOST_WAITING) return 0;
    const tail = this.#tail(state, SEAL_CHUNK);
    if (tail === undefined) return 0;
    const { first, ...steps } = tail;
    const last = first + steps.n - 1;
    // At the end a few rows stay; before a gap they become a block, so that those behind it can.
    if (last === state.heads.steps && steps.n < WORTH_A_BLOCK) return 0;
    this.#transaction(() => {
      this.#blocks.write(state.runKey, first, steps);
      this.#blocks.removeTail(state.runKey, state.sealed, last);
    });
    this.#checkpoints.wrote(PAGES_BYTES);
    state.sealed = last;
    return steps.n;
  }

  #finish(state: RunState): void {
    if (state.live!.unsealed.length > 0) this.#writeBlock(state, false);
    this.#episodeWriter.flush();
    this.#eventWriter.flush();
    this.#seriesWriter.finish(state);
    this.#rows.save(state);
  }

  /** Memory follows the disk. */
  #committed(written: readonly Written[]): void {
    // Nothing was written, so nothing is known.
    if (written.length === 0) return;
    this.#writable = true;
    let bytes = 0;
    for (const { runId, attempt, state, firstStep, steps, episodes, events } of written) {
      bytes += PAGES_BYTES + 2 * (steps.bytes + 400 * (episodes.length + events.length));
      this.#stored.steps += steps.n;
      this.#stored.episodes += episodes.length;
      this.#stored.events += events.length;
      const live = state.live!;
      const ringBefore = ringBytesOf(live);
      // Readers of a block that came sealed open it, once for all of them.
      if (steps.columns !== undefined) live.steps.push(firstStep, attempt, steps.columns);
      else if (steps.n > 0) live.steps.clear();
      live.episodes.push(episodes);
      live.events.push(events);
      live.counted = live.metrics.size;
      this.#ringBytes += ringBytesOf(live) - ringBefore;
      this.#waiters.wake(runId, state.heads);
    }
    this.#checkpoints.wrote(bytes);
    this.#sweep(this.#now());
  }

  #storeEpisode(state: RunState, attempt: number, record: EpisodeRecord, arrivalNs: string): StoredEpisode {
    const stored = storedEpisode(STORABLE, record, ++state.heads.episodes, attempt, arrivalNs);
    if (episodeChanged(record, stored)) addViolation(state, CLAMPED, 1);
    if (Number.isNaN(stored.totalReward)) addViolation(state, NO_REWARD, 1);
    const live = state.live!;
    const source = this.#rows.sourceKey(state, stored.agentId, stored.workerId, "", "");
    this.#episodeWriter.add(...episodeRow(state.runKey, stored, source));
    live.recentRewards.push(stored.totalReward);
    if (live.recentRewards.length > 100) live.recentRewards.shift();
    this.#seriesWriter.episode(state, stored.totalReward, stored.steps, stored.tsNs);
    this.#seriesWriter.record(state, stored.metadataJson, state.heads.steps, stored.tsNs);
    return stored;
  }

  #storeEvent(state: RunState, attempt: number, record: WorkerEventRecord, arrivalNs: string): StoredWorkerEvent {
    const stored = storedWorkerEvent(STORABLE, record, ++state.heads.events, attempt, arrivalNs);
    this.#eventWriter.add(...workerEventRow(state.runKey, stored));
    // Numbers of these are no curve.
    if (stored.kind === PARAMETERS_EVENT) {
      const leftOut = this.#parameters.store(state.runKey, attempt, stored.seq, stored.dataJson);
      addViolation(state, TOO_MANY_PARAMETERS, leftOut);
    } else if (!NO_CURVES.has(stored.kind)) {
      this.#seriesWriter.record(state, stored.dataJson, state.heads.steps, stored.tsNs);
    }
    return stored;
  }

  /** A source key for every step, or one for all. */
  #sources(state: RunState, steps: ReturnType<typeof cleanSteps>): number[] | number {
    const { agentId, workerId, policyLabel, backend } = steps;
    const at = (column: string[] | string, i: number) => typeof column === "string" ? column : column[i]!;
    const key = (i: number) =>
      this.#rows.sourceKey(state, at(agentId, i), at(workerId, i), at(policyLabel, i), at(backend, i));
    if ([agentId, workerId, policyLabel, backend].every((column) => typeof column === "string")) return key(0);
    return Array.from({ length: steps.n }, (_, i) => key(i));
  }

  #rollBack(): void {
    try {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
    } catch {
      // SQLite has ended the transaction by itself.
    }
    this.#episodeWriter.clear();
    this.#eventWriter.clear();
    this.#seriesWriter.reset();
    for (const { runId } of this.#written) this.#dropState(runId);
    this.#written = [];
  }

  /** Deleting makes room, so it may take what is kept for a full disk; it goes on where it was cut short. */
  async #onFullDisk(work: () => void | Promise<void>): Promise<void> {
    for (let tries = 1;; tries++) {
      try {
        return await work();
      } catch (error) {
        const trouble = machineTrouble(error, this.#path);
        if (trouble === undefined || !isFull(error) || tries === 3) throw trouble ?? error;
        if (this.#options.reserve === undefined) await this.#checkpoints.run();
        else this.#reserved.spend();
      }
    }
  }

  // ------------------------------------------------------------------------------------------------ reading

  #read(state: RunState, kind: TelemetryKind, since: number, limit: number): StoredOf[TelemetryKind][] {
    const { live, runKey } = state;
    const sourceOf = (source: number) => this.#rows.sourceOf(state, source);
    switch (kind) {
      case "steps": {
        const near = live?.steps.read(since, limit, READ_BYTES);
        if (near !== undefined) return near;
        const { rows, length } = this.#blocks.read(runKey, since, limit, READ_BYTES);
        const after = Math.max(since, state.sealed);
        if (rows.length >= limit || length >= READ_BYTES || state.heads.steps <= after) return rows;
        const left = state.wide ? READ_BYTES - length : undefined;
        return [...rows, ...this.#reader.steps(runKey, after, limit - rows.length, left, sourceOf)];
      }
      case "episodes":
        return live?.episodes.read(since, limit, READ_BYTES) ??
          this.#reader.episodes(runKey, since, limit, READ_BYTES, sourceOf);
      case "events":
        return live?.events.read(since, limit, READ_BYTES) ?? this.#reader.events(runKey, since, limit, READ_BYTES);
      case "metrics": {
        const names = new Map<number, string>();
        return this.#reader.metrics(runKey, since, limit, (series) => {
          if (!names.has(series)) {
            names.set(series, (allRows(this.#seriesName, runKey, series)[0]?.[0] ?? "") as string);
          }
          return names.get(series)!;
        });
      }
    }
  }

  // ------------------------------------------------------------------------------------------------ memory

  #state(runId: string): RunState | undefined {
    const known = this.#states.get(runId);
    if (known !== undefined) return known;
    const loaded = this.#rows.load(runId);
    return loaded === undefined ? undefined : this.#adopt(runId, loaded);
  }

  #adopt(runId: string, state: RunState): RunState {
    if (this.#states.size >= MAX_STATES) {
      for (const [id, { live }] of this.#states) if (live === undefined) this.#states.delete(id);
    }
    this.#states.set(runId, state);
    return state;
  }

  #live(state: RunState): LiveState {
    if (state.live !== undefined) return state.live;
    const rewards = allRows(this.#recentRewards, state.runKey).map((row) => row[0] === null ? NaN : row[0] as number);
    const ringBytes = this.#ringsLimit / 8;
    state.live = {
      ...this.#rows.sources(state.runKey),
      ...this.#seriesWriter.load(state),
      counted: 0,
      unsealed: [],
      recentRewards: rewards.reverse(),
      steps: new StepRing(this.#options.ringSize ?? STANDARD_BOUNDS.ringSteps, ringBytes),
      episodes: new RowRing<StoredEpisode>(
        this.#options.episodeRing ?? 1024,
        ringBytes / 4,
        (row) => row.metadataJson.length,
      ),
      events: new RowRing<StoredWorkerEvent>(EVENT_RING, ringBytes / 4, (row) => row.dataJson.length),
      touchedAt: 0,
    };
    return state.live;
  }

  #dropState(runId: string): void {
    const live = this.#states.get(runId)?.live;
    if (live !== undefined) this.#ringBytes -= ringBytesOf(live);
    this.#states.delete(runId);
  }

  /** Idle runs give their rings back; beyond the bound for all, the least recently written do too. */
  #sweep(now: number): void {
    if (Math.abs(now - this.#sweptAt) < SWEEP_MS && this.#ringBytes <= this.#ringsLimit) return;
    this.#sweptAt = now;
    const live = [...this.#states.values()].filter((state) => state.live !== undefined);
    live.sort((a, b) => a.live!.touchedAt - b.live!.touchedAt);
    for (const state of live) {
      const idle = now - state.live!.touchedAt > IDLE_MS;
      if (!idle && this.#ringBytes <= this.#ringsLimit) break;
      this.#ringBytes -= ringBytesOf(state.live!);
      state.live = undefined;
    }
  }
}

function isSilent({ live }: RunState, now: number): boolean {
  return live === undefined || now - live.touchedAt > IDLE_MS;
}

function requireWhole(attempt: number, { from, to, steps, episodes, events }: IngestBatch): void {
  for (const [name, value] of Object.entries({ attempt, from, to })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new MosaicError("invalid_argument", `${name} of a batch is ${value}, not a whole number from 0`);
    }
  }
  if (to === from && (steps.n > 0 || episodes.length > 0 || events.length > 0)) {
    throw new MosaicError("invalid_argument", `a batch with records says from = to = ${to}: they have no position`);
  }
}

/** What one transaction takes of a run that is adopted. */
const ADOPTED_BYTES = 2 << 20;

function lengthOf(cell: unknown): number {
  return typeof cell === "string" || cell instanceof Uint8Array ? cell.length : 8;
}

/** About what a metric takes in memory: its name, its summary, where it ends. */
const METRIC_BYTES = 1000;

function ringBytesOf(live: LiveState): number {
  return live.steps.bytes + live.episodes.bytes + live.events.bytes + live.counted * METRIC_BYTES;
}

function meanOfFinite(values: number[]): number | null {
  let sum = 0;
  let count = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    sum += value;
    count++;
  }
  return count === 0 ? null : Number.isFinite(sum / count) ? sum / count : null;
}

function pageBytesOf(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA page_size").get()!.page_size);
}

/** What can be chosen only while there is nothing in the file: later the same words would write to it. */
function prepareNew(path: string): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA page_size = ${PAGE_BYTES};
      PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL`);
  } finally {
    db.close();
  }
}

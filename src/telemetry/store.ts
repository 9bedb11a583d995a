/**
 * The telemetry log on SQLite (docs/reference/telemetry.md): every record once, in order, committed
 * in one transaction with the journal position it was read from. Synchronous and in the daemon's
 * own thread: a batch takes milliseconds, and an acknowledged batch is committed. Only checkpoints,
 * which sync the disk, run elsewhere. Memory holds counters for runs that were read, and more for
 * runs being written (rings, the ends of series). A failed transaction drops the run's state, so
 * that memory never contains more than the disk.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { MosaicError } from "../base/errors.ts";
import { yieldToOthers } from "../base/time/sleep.ts";
import { OpenedFile } from "../os/files/opened_file.ts";
import { type Reserve, WithReserve, withSpaceOf } from "../os/files/reserve.ts";
import { explainShortage } from "../os/processes/shortage.ts";
import { openWal } from "../os/database/wal.ts";
import type { IngestBatch, SourceCursor } from "../records/ingest_batch.ts";
import type { EpisodeRecord, StepRecord, WorkerEventRecord } from "../gen/records/record_types.ts";
import {
  BUSY_TIMEOUT_MS,
  type CheckpointOptions,
  Checkpoints,
  WAL_LIMIT_BYTES,
} from "./commit/checkpoints.ts";
import { Deletions } from "./runs/deletions.ts";
import { isFull, machineTrouble } from "./blocks/failures.ts";
import { GroupCommit, type Outcome, type WaitingBatch } from "./commit/group_commit.ts";
import { countersOf, keyOf, rowsOfRun } from "./runs/moved_run.ts";
import { OwnPoints } from "./series/own_points.ts";
import { ParameterRows } from "./runs/parameter_rows.ts";
import type {
  IngestResult,
  ReportedParameter,
  RunTelemetry,
  SeriesBucketRow,
  SeriesSummary,
  StoredOf,
} from "../records/stored.ts";
import { msOf } from "../records/points.ts";
import { allRows, prepareArrays, READ_BYTES, RowReader } from "./tables/row_reader.ts";
import { firstFrom, Rewinds, type Start } from "./series/rewinds.ts";
import { Waiters } from "./row_waiters.ts";
import { bytesOfRuns } from "./runs/run_bytes.ts";
import { positionOf, RunRows, type RunState, summaryOf } from "./runs/run_state.ts";
import { type RingLimits, RunStates } from "./commit/run_states.ts";
import { withoutRepeats } from "./commit/count_not_read.ts";
import { RunWriter, StalePosition, type Written } from "./commit/run_writer.ts";
import { Sealing } from "./commit/sealing.ts";
import { SeriesReader } from "./series_reader.ts";
import { SeriesRows } from "./series/series_rows.ts";
import { SeriesWriter } from "./commit/series_writer.ts";
import { SourceCursors } from "./runs/source_cursors.ts";
import { type BlockLimits, StepStorage } from "./commit/step_storage.ts";
import { StepBlocks } from "./blocks/step_blocks.ts";
import { columnsOf } from "../records/storable_steps.ts";
import { Summaries } from "./series/summaries.ts";
import { migrate } from "./tables/tables.ts";
import type { FollowedRun, TelemetryLog } from "./telemetry_log.ts";
import type { TelemetryKind } from "../records/record_fields.ts";

export interface StoreOptions extends RingLimits {
  /** "full" survives a power failure: every commit is synced to the disk. */
  durability?: "normal" | "full";
  now?: () => number;
  /** Bound on the database's size; beyond it, writes fail as on a full disk. */
  maxBytes?: number;
  checkpoints?: CheckpointOptions;
  blocks?: BlockLimits;
  /**
   * Space reserved for a full disk; the log is never larger, so that it can always be moved into
   * the database.
   */
  reserve?: Reserve;
}

/** For a new database: every commit writes whole pages. Databases of earlier versions have 8192. */
const PAGE_BYTES = 4096;
/** Pages at the ends of tables, which every commit of a run writes. */
const PAGES_BYTES = 8 * PAGE_BYTES;
const CACHE_KIB = 16 * 1024;
const READ_ROWS = 4096;
/** After a failed write: if nobody has tried again for this long, `writable` tries itself. */
const PROBE_MS = 5_000;
/** The database's file was replaced or removed. */
class FileGone extends MosaicError {}

export class TelemetryStore implements TelemetryLog {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #now: () => number;
  readonly #options: StoreOptions;
  readonly #checkpoints: Checkpoints;
  readonly #deletions: Deletions;
  readonly #rows: RunRows;
  readonly #reader: RowReader;
  readonly #blocks: StepBlocks;
  readonly #steps: StepStorage;
  readonly #states: RunStates;
  readonly #writer: RunWriter;
  readonly #sealing: Sealing;
  readonly #series: SeriesReader;
  readonly #parameters: ParameterRows;
  readonly #summaries: Summaries;
  readonly #rewinds: Rewinds;
  readonly #ownPoints: OwnPoints;
  readonly #seriesName: StatementSync;
  readonly #cursors: SourceCursors;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #file: OpenedFile;
  readonly #reserved: WithReserve;
  readonly #group: GroupCommit;
  readonly #waiters = new Waiters();
  #writable = true;
  /** When a write last failed. */
  #triedAt = 0;
  readonly #stored = { steps: 0, episodes: 0, events: 0 };
  #closed = false;

  private constructor(db: DatabaseSync, path: string, options: StoreOptions) {
    this.#db = db;
    this.#path = path;
    this.#file = new OpenedFile(path);
    this.#options = options;
    this.#now = options.now ?? Date.now;
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
          hint: "Free space on its disk, or delete runs; then work continues.",
        }),
      logBytes: () => this.#checkpoints.walBytes(),
      emptyLog: () => this.#checkpoints.empty(),
    });
    this.#deletions = new Deletions(db, (bytes) => this.#checkpoints.wrote(bytes));
    this.#blocks = new StepBlocks(db, (runKey, first, last, why) => {
      const run = db.prepare("SELECT run_id FROM telemetry_runs WHERE run_key = ?").get(runKey)
        ?.run_id;
      options.checkpoints?.warn?.(
        `steps ${first} to ${last} of run ${run} cannot be read: ${why}; stop the daemon and run: mosaic doctor --repair`,
      );
    });
    const damaged = (message: string) => options.checkpoints?.warn?.(message);
    this.#rows = new RunRows(db, (runKey) => this.#blocks.sealedTo(runKey), damaged);
    this.#reader = new RowReader(db);
    this.#parameters = new ParameterRows(db);
    const seriesRows = new SeriesRows(
      db,
      (runKey, first, last) => this.#blocks.rewards(runKey, first, last),
    );
    this.#summaries = new Summaries(db, seriesRows);
    this.#rewinds = new Rewinds(db);
    this.#ownPoints = new OwnPoints(db, this.#rewinds);
    this.#series = new SeriesReader(db, seriesRows, this.#rewinds);
    const seriesWriter = new SeriesWriter(db, seriesRows, this.#summaries, this.#rewinds);
    this.#cursors = new SourceCursors(db);
    this.#states = new RunStates(db, this.#rows, seriesWriter, options);
    this.#steps = new StepStorage(db, this.#blocks, this.#reader, options.blocks);
    this.#writer = new RunWriter(db, {
      rows: this.#rows,
      states: this.#states,
      steps: this.#steps,
      seriesWriter,
      cursors: this.#cursors,
      parameters: this.#parameters,
      now: this.#now,
    });
    this.#sealing = new Sealing({
      ...{
        db,
        path,
        states: this.#states,
        steps: this.#steps,
        blocks: this.#blocks,
        now: this.#now,
      },
      transaction: (work) => this.#transaction(work),
      wrotePages: () => this.#checkpoints.wrote(PAGES_BYTES),
      giveBack: () => this.#deletions.giveBack(),
    });
    this.#seriesName = prepareArrays(
      db,
      "SELECT name FROM series WHERE run_key = ? AND series = ?",
    );
    this.#group = new GroupCommit({
      commit: (group) => this.#ingestGroup(group),
      ready: () => this.#checkpoints.caughtUp(),
      now: () => performance.now(),
      pageBytes: pageBytesOf(db),
    });
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
  }

  /**
   * Opens the database, creates it if there is none, and continues interrupted deletions.
   * @throws MosaicError `failed_precondition` (newer schema), `unavailable` (corrupt, not writable,
   * locked).
   */
  static open(path: string, options: StoreOptions = {}): TelemetryStore {
    let db: DatabaseSync | undefined;
    try {
      // Only the owner may read workers' records; SQLite gives its other files the same mode.
      Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
      if (Deno.statSync(path).size === 0) prepareNew(path);
      const opened = openWal(path, BUSY_TIMEOUT_MS, options.reserve);
      db = opened.db;
      db.exec(`PRAGMA synchronous = ${options.durability === "full" ? "FULL" : "NORMAL"};
        PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`);
      if (options.maxBytes !== undefined) {
        db.exec(
          `PRAGMA max_page_count = ${Math.max(1, Math.floor(options.maxBytes / pageBytesOf(db)))}`,
        );
      }
      withSpaceOf(options.reserve, isFull, () => migrate(opened.db, path));
      // If this connection locks the file exclusively, the checkpoint thread cannot open another.
      const checkpoints = opened.alone
        ? { ...options.checkpoints, mode: "inline" as const }
        : options.checkpoints;
      const store = new TelemetryStore(db, path, { ...options, checkpoints });
      store.#reserved.begin();
      store.#deletions.resume();
      store.#summariseOld();
      return store;
    } catch (error) {
      db?.close();
      if (error instanceof MosaicError) throw error;
      if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied) {
        throw new MosaicError(
          "unavailable",
          `telemetry database ${path} cannot be opened: ${error.message}`,
          {
            hint: "Check that its directory exists and may be written.",
            cause: error,
          },
        );
      }
      throw machineTrouble(error, path) ??
        explainShortage(error, `open the telemetry database ${path}`);
    }
  }

  /**
   * In the background; if it fails or the store is closed, the rest is done after the next start.
   */
  #summariseOld(): void {
    const write = (work: () => void) => this.#transaction(work);
    this.#summaries.summariseOld(write, () => this.#closed).catch(() => {
      // The disk is full or the file is damaged: the next write reports it.
    });
  }

  ingest(runId: string, attempt: number, batch: IngestBatch): IngestResult {
    requireWhole(attempt, batch);
    for (let tries = 1;; tries++) {
      try {
        return this.#transaction(() => this.#ingestOne(runId, attempt, batch));
      } catch (error) {
        // The state was dropped, so the next try reads the position that is really stored.
        if (!(error instanceof StalePosition) || tries === 3) throw error;
      }
    }
  }

  async deliver(runId: string, attempt: number, batch: IngestBatch): Promise<IngestResult> {
    requireWhole(attempt, batch);
    // Urgent: readers wait to see that the attempt has begun.
    return await this.#group.add({ runId, attempt, batch }, batch.from === 0);
  }

  journalPosition(runId: string, attempt: number): number {
    const state = this.#states.get(runId);
    return state === undefined ? 0 : positionOf(state, runId, attempt);
  }

  sourceCursors(runId: string, attempt: number): SourceCursor[] | undefined {
    const state = this.#states.get(runId);
    return state === undefined ? [] : this.#cursors.of(state.runKey, attempt);
  }

  commitWaiting(): void {
    this.#group.flush();
  }

  ingestAll(batches: readonly WaitingBatch[]): Outcome[] {
    return this.#ingestGroup(batches);
  }

  /**
   * One transaction for all batches; if it fails, one for each, so that one batch cannot fail
   * another.
   */
  #ingestGroup(group: readonly WaitingBatch[]): Outcome[] {
    if (group.length > 1) {
      try {
        const results = this.#transaction(() =>
          group.map(({ runId, attempt, batch }) => this.#ingestOne(runId, attempt, batch))
        );
        return results.map((result) => ({ result }));
      } catch (error) {
        // The wait for another program's lock has timed out once; each further one would, too.
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

  /** Called inside a transaction. */
  #ingestOne(runId: string, attempt: number, batch: IngestBatch): IngestResult {
    const { source, ...records } = batch;
    const { from, to } = records;
    const state = this.#states.get(runId);
    const position = state === undefined
      ? 0
      : source === undefined
      ? positionOf(state, runId, attempt)
      : this.#cursors.serial(state.runKey, attempt, source.name);
    if (from !== position || to < from) {
      return to <= position ? { type: "duplicate", position } : { type: "gap", position };
    }
    const place = source === undefined
      ? { journal: { from, to }, label: "" }
      : { journal: undefined, source: { ...source, serial: to }, label: source.label };
    const events = withoutRepeats(state, batch.events);
    const stored = this.#writer.write({ ...records, events, ...place, runId, attempt });
    const { steps, episodes, lastEvent } = stored;
    return {
      ...{ type: "stored", position: to, steps: steps.n, episodes: episodes.length },
      // Events of a run within this one have no number here.
      ...{ events: batch.within === undefined ? events.slice() : eventsOf(stored), lastEvent },
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
    const none = { otherLines: 0, malformedLines: 0, violations: {}, journal: undefined, label };
    this.#transaction(() => {
      const fresh = withoutRepeats(this.#states.get(runId), events);
      this.#writer.write({
        runId,
        attempt,
        steps: columnsOf(steps),
        episodes,
        events: fresh,
        ...none,
      });
    });
  }

  sample(
    runId: string,
    attempt: number,
    points: readonly (readonly [name: string, value: number])[],
  ): void {
    const state = this.#states.get(runId);
    if (state === undefined || state.attempt !== attempt) return;
    this.#transaction(() => this.#writer.sample(runId, attempt, state, points));
  }

  read<K extends TelemetryKind>(
    runId: string,
    kind: K,
    since: number,
    limit: number,
  ): StoredOf[K][] {
    const state = this.#states.get(runId);
    if (state === undefined || since >= state.heads[kind] || limit < 1) return [];
    if (since + 1 < state.firsts[kind]) {
      throw new MosaicError(
        "out_of_range",
        `${kind} of run ${runId} are kept from seq ${
          state.firsts[kind]
        }; asked for those after ${since}`,
        { hint: `Read again since ${state.firsts[kind] - 1}.` },
      );
    }
    const rows = Math.min(limit, READ_ROWS, state.heads[kind] - since);
    return this.#read(state, kind, since, rows) as StoredOf[K][];
  }

  eventSeqs(runId: string, kinds: readonly string[], since: number, to: number): number[] {
    const state = this.#states.get(runId);
    return state === undefined ? [] : this.#reader.eventSeqs(state.runKey, kinds, since, to);
  }

  head(runId: string, kind: TelemetryKind): number {
    return this.#states.get(runId)?.heads[kind] ?? 0;
  }

  follow(runId: string): FollowedRun {
    return this.#waiters.follow(runId);
  }

  leave(runId: string): void {
    this.#waiters.deleted(runId);
  }

  waitBeyond(
    runId: string,
    kind: TelemetryKind,
    since: number,
    signal: AbortSignal,
  ): Promise<void> {
    if (this.head(runId, kind) > since) return Promise.resolve();
    return this.#waiters.wait(runId, kind, since, signal);
  }

  summary(runId: string): RunTelemetry {
    return summaryOf(this.#states.get(runId));
  }

  listSeries(runId: string): SeriesSummary[] {
    const state = this.#states.get(runId);
    return state === undefined ? [] : this.#summaries.ofRun(state.runKey);
  }

  attemptStep(runId: string, attempt: number): number {
    const newest = this.#states.get(runId)?.attemptStep;
    return newest?.attempt === attempt ? newest.step : 0;
  }

  listSources(runId: string): SeriesSummary[] {
    const state = this.#states.get(runId);
    if (state === undefined) return [];
    const copies = this.#summaries.copies(state.runKey);
    return this.#summaries.ofRun(state.runKey)
      .flatMap((one) => [one, ...copies.filter(({ copyOf }) => copyOf === one.name)]);
  }

  seriesOf(runId: string, name: string): SeriesSummary | undefined {
    const state = this.#states.get(runId);
    return state === undefined ? undefined : this.#summaries.one(state.runKey, name);
  }

  seriesNamed(name: string): (SeriesSummary & { runId: string })[] {
    return this.#summaries.named(name);
  }

  *namesOfMany(runIds: readonly string[]): Generator<{ name: string; once: boolean } | undefined> {
    const keys = runIds.map((id) => this.#states.get(id)?.runKey).filter((key) =>
      key !== undefined
    );
    yield* this.#summaries.namesOf(keys.sort((a, b) => a - b));
  }

  seriesNames(): string[] {
    return this.#summaries.names();
  }

  parameters(runId: string): ReportedParameter[] {
    const state = this.#states.get(runId);
    return state === undefined ? [] : this.#parameters.ofRun(state.runKey);
  }

  parametersNamed(name: string): (ReportedParameter & { runId: string })[] {
    return this.#parameters.named(name);
  }

  parameterNames(): string[] {
    return this.#parameters.names();
  }

  series(
    runId: string,
    name: string,
    fromX: number,
    toX: number,
    buckets: number,
    rough = false,
  ): SeriesBucketRow[] {
    return this.#series.points(
      { runId, state: this.#states.get(runId), name },
      fromX,
      toX,
      buckets,
      rough,
    );
  }

  seriesTail(
    runId: string,
    name: string,
    from: number,
    width: number,
  ): SeriesBucketRow[] | undefined {
    return this.#series.tail({ runId, state: this.#states.get(runId), name }, from, width);
  }

  outlines(
    runIds: readonly string[],
    name: string,
    fromX: number,
    toX: number,
    buckets: number,
  ): SeriesBucketRow[][] {
    const states = runIds.map((runId) => this.#states.get(runId));
    const found = this.#series.outlines(
      states.flatMap((s) => s?.runKey ?? []),
      name,
      fromX,
      toX,
      buckets,
    );
    return runIds.map((runId, i) => {
      const state = states[i];
      if (state === undefined) return [];
      return found.get(state.runKey) ??
        this.#series.points({ runId, state, name }, fromX, toX, buckets, true);
    });
  }

  overwritten(runId: string, name: string): { first: number; last: number }[] {
    return this.#series.overwritten({ runId, state: this.#states.get(runId), name });
  }

  beginAttempt(runId: string, attempt: number, resumedAt: number | null): void {
    const state = this.#states.get(runId);
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
        const [series, head, position] of [
          [1, steps, stepPosition],
          [2, episodes, episodePosition],
          [
            3,
            episodes,
            episodePosition,
          ],
        ] as const
      ) {
        if (head > 0) {
          this.#rewinds.put(state.runKey, series, { attempt, first: head + 1, position });
        }
      }
    });
    // The next batch begins at the new position.
    this.#states.drop(runId);
  }

  /**
   * For a run that is rebuilt from another's logs: an attempt begins at the same positions. Call it
   * before anything of the attempt is stored.
   */
  carryStart(from: string, to: string, attempt: number): void {
    const [old, made] = [this.#states.get(from), this.#states.get(to)];
    if (old === undefined || made === undefined) return;
    const starts = this.#ownPoints.starts(old.runKey, attempt);
    this.#transaction(() => {
      for (const { series, ...start } of starts) this.#rewinds.put(made.runKey, series, start);
    });
    this.#states.drop(to);
  }

  /** For a run that is rebuilt from another's logs: copies the points that belong to no record. */
  carryPoints(from: string, to: string): void {
    const old = this.#states.get(from);
    if (old === undefined) return;
    for (const points of this.#ownPoints.points(old.runKey)) {
      const made = this.#states.get(to);
      if (made !== undefined && points.length > 0) {
        this.#transaction(() => this.#writer.sampledBefore(to, made, points));
      }
    }
  }

  async delete(runId: string): Promise<number> {
    this.commitWaiting();
    const state = this.#states.get(runId);
    if (state === undefined) {
      this.#waiters.deleted(runId);
      return 0;
    }
    const before = this.usedBytes();
    await this.#onFullDisk(() => {
      this.#deletions.begin(runId, state.runKey);
      this.#states.drop(runId);
      this.#waiters.deleted(runId);
    });
    this.#blocks.forget(state.runKey);
    await this.#onFullDisk(() => this.#deletions.remove(state.runKey));
    // Closed meanwhile: the rest is deleted at the next start.
    if (this.#closed) return 0;
    const freed = Math.max(0, before - this.usedBytes());
    // The file shrinks when the log is moved into it.
    await this.#checkpoints.run();
    this.#reserved.refill();
    return freed;
  }

  /**
   * Gives a run the telemetry of another, which then has none; the run's old telemetry is removed,
   * now or after the next start. For telemetry that was rebuilt from a journal: no other connection
   * may write to either run.
   */
  replace(runId: string, by: string): void {
    this.#transaction(() => {
      this.#giveUp(runId);
      this.#db.prepare("UPDATE telemetry_runs SET run_id = ? WHERE run_id = ?").run(runId, by);
    });
    for (const id of [runId, by]) this.#states.drop(id);
    this.#deletions.resume();
  }

  /**
   * Until everything is copied, the rows belong to a run that is being deleted: after an
   * interruption, the next start removes them.
   */
  async adopt(from: DatabaseSync, runId: string): Promise<void> {
    if (this.#states.get(runId) !== undefined) {
      throw new MosaicError("already_exists", `run ${runId} has telemetry already`);
    }
    const itsKey = keyOf(from, runId);
    if (itsKey === undefined) return;
    let runKey = 0;
    this.#transaction(() => {
      const insert = this.#db.prepare(
        "INSERT INTO telemetry_runs (run_id, deleting) VALUES (?, 1)",
      );
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
        this.#db.prepare(
          `UPDATE telemetry_runs SET ${columns.map((column) => `${column} = ?`).join(", ")}
          WHERE run_key = ?`,
        ).run(...counters!, runKey)
      );
    } catch (error) {
      this.#deletions.resume();
      throw error;
    }
  }

  /** Like `delete`, without waiting until the rows are removed. */
  discard(runId: string): void {
    this.#transaction(() => this.#giveUp(runId));
    this.#states.drop(runId);
    this.#deletions.resume();
  }

  #giveUp(runId: string): void {
    const state = this.#states.get(runId);
    if (state === undefined) return;
    this.#blocks.forget(state.runKey);
    this.#deletions.begin(runId, state.runKey);
  }

  /** Bytes of the database's used pages. */
  usedBytes(): number {
    const pragma = (name: string) =>
      Number(Object.values(this.#db.prepare(`PRAGMA ${name}`).get()!)[0]);
    return (pragma("page_count") - pragma("freelist_count")) * pageBytesOf(this.#db);
  }

  fileBytes(): number {
    let bytes = this.#checkpoints.walBytes();
    try {
      bytes += Deno.statSync(this.#path).size;
    } catch {
      // The file was removed: the next write reports it.
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
    return this.#states.rings();
  }

  writable(): boolean {
    if (this.#reserved.short) return false;
    // Perhaps nobody writes any more: then an empty commit shows whether the trouble is over.
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
      const { user_version } = this.#db.prepare("PRAGMA user_version").get() as {
        user_version: number;
      };
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
    this.#sealing.close();
    this.#deletions.close();
    this.#checkpoints.close();
    this.#states.clear();
    this.#db.close();
  }

  /** Makes blocks of waiting rows now, which also happens in the background. */
  sealWaiting(): Promise<void> {
    return this.#sealing.sealWaiting();
  }

  // ------------------------------------------------------------------------------------------------
  // writing

  /** Commits what `work` writes. On any failure nothing is stored, nor kept in memory. */
  #transaction<T>(work: () => T): T {
    return this.#reserved.write(() => this.#tryTransaction(work));
  }

  #tryTransaction<T>(work: () => T): T {
    let written: readonly Written[] = [];
    try {
      this.#requireFile();
      this.#begin.run();
      const result = work();
      written = this.#writer.finish();
      this.#commit.run();
      this.#committed(written);
      return result;
    } catch (error) {
      this.#rollBack(written);
      if (error instanceof StalePosition) throw error;
      if (error instanceof FileGone) this.#writable = false;
      const trouble = machineTrouble(error, this.#path);
      if (trouble === undefined) throw error;
      this.#writable = false;
      this.#triedAt = this.#now();
      throw trouble;
    }
  }

  /**
   * Writes to a removed file would be lost; the journals still have the records. @throws
   * MosaicError `unavailable`
   */
  #requireFile(): void {
    const what = this.#file.check();
    if (what === "same") return;
    throw new FileGone(
      "unavailable",
      `telemetry database ${this.#path} was ${what} while the daemon uses it`,
      {
        hint:
          "Nothing is stored any more; workers continue, and their logs keep everything. Stop the daemon (runs continue), run " +
          "mosaic doctor --repair (it stores the records of the logs again), and start it.",
      },
    );
  }

  /** Updates memory after the commit. */
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
      this.#states.changeRings(live, () => {
        // Readers of a sealed block open it, once for all of them.
        if (steps.columns !== undefined) live.steps.push(firstStep, attempt, steps.columns);
        else if (steps.n > 0) live.steps.clear();
        live.episodes.push(episodes);
        live.events.push(events);
      });
      this.#waiters.wake(runId, state.heads);
    }
    this.#checkpoints.wrote(bytes);
    this.#states.sweep(this.#now());
  }

  #rollBack(written: readonly Written[]): void {
    try {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
    } catch {
      // SQLite has already ended the transaction.
    }
    this.#writer.abandon(written);
  }

  /** Deleting frees space, so it may use the reserve; it continues where it was interrupted. */
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

  // ------------------------------------------------------------------------------------------------
  // reading

  #read(
    state: RunState,
    kind: TelemetryKind,
    since: number,
    limit: number,
  ): StoredOf[TelemetryKind][] {
    const { live, runKey } = state;
    const sourceOf = (source: number) => this.#rows.sourceOf(state, source);
    switch (kind) {
      case "steps":
        return live?.steps.read(since, limit, READ_BYTES) ??
          this.#steps.read(state, since, limit, sourceOf);
      case "episodes":
        return live?.episodes.read(since, limit, READ_BYTES) ??
          this.#reader.episodes(runKey, since, limit, READ_BYTES, sourceOf);
      case "events":
        return live?.events.read(since, limit, READ_BYTES) ??
          this.#reader.events(runKey, since, limit, READ_BYTES);
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
}

function requireWhole(attempt: number, { from, to, steps, episodes, events }: IngestBatch): void {
  for (const [name, value] of Object.entries({ attempt, from, to })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new MosaicError(
        "invalid_argument",
        `${name} of a batch is ${value}, not a whole number from 0`,
      );
    }
  }
  if (to === from && (steps.n > 0 || episodes.length > 0 || events.length > 0)) {
    throw new MosaicError(
      "invalid_argument",
      `a batch with records says from = to = ${to}: they have no position`,
    );
  }
}

/** Bytes of an adopted run per transaction. */
const ADOPTED_BYTES = 2 << 20;

function lengthOf(cell: unknown): number {
  return typeof cell === "string" || cell instanceof Uint8Array ? cell.length : 8;
}

function pageBytesOf(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA page_size").get()!.page_size);
}

/**
 * Settings that are possible only while the file is empty: later the same statements would write to
 * it.
 */
function prepareNew(path: string): void {
  const db = new DatabaseSync(path);
  try {
    // Nobody else uses it yet: no shared memory is mapped, for which the disk may have no space.
    db.exec(
      `PRAGMA locking_mode = EXCLUSIVE; PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA page_size = ${PAGE_BYTES};
      PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL`,
    );
  } finally {
    db.close();
  }
}

function eventsOf({ events }: Written): WorkerEventRecord[] {
  return events.map(({ kind, dataJson, tsNs }) => ({ kind, dataJson, tsNs }));
}

/**
 * Runs, transitions, events and artifacts in registry.db; `sweeps`, `lineage` and `gpus` have its
 * further rows.
 *
 * One process writes, synchronously: a method returns after the commit, and waiters are woken after
 * the commit. A disk error is a MosaicError `unavailable`; nothing was written then, and the next
 * call may succeed.
 */
import type { DatabaseSync } from "node:sqlite";
import {
  ENDED_STATES,
  isEnded,
  type LifecycleEvent,
  LIVE_STATES,
  RUN_STATES,
  RUNNING_STATES,
  transition,
} from "./lifecycle/lifecycle.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { fileBytes } from "../os/files/files.ts";
import { tokenHash, workerToken } from "../base/session_tokens.ts";
import type { RunReader } from "./run_reader.ts";
import { effectsOf, queuedEvent } from "./effects.ts";
import { type CodeRow, codeRows, codeText, type NewCode, storeCode } from "./code/code_rows.ts";
import { eventJson } from "./event_data.ts";
import type { EventKind, EventToAppend } from "./event_kinds.ts";
import { migrate } from "./migrations.ts";
import { childIdsOf, copyRun } from "./moved_run.ts";
import {
  conditionsOf,
  eventConditions,
  fitting,
  NEWEST_FIRST,
  OLDEST_FIRST,
  placeOf,
  ROW_BYTES,
  tokenAfter,
  where,
} from "./listing.ts";
import { resolveRunId } from "./find_run.ts";
import {
  artifactFrom,
  eventFrom,
  OUTLINE_COLUMNS,
  outlineFrom,
  patchOnly,
  placementFrom,
  runColumns,
  runFrom,
  SELECT_PLACEMENT,
  SELECT_RUN,
  transitionFrom,
} from "./rows.ts";
import { type Durability, openDatabase, Sql, type SqlRow } from "./sqlite.ts";
import type {
  ArtifactRow,
  EventFilter,
  EventRow,
  NewArtifact,
  NewChild,
  NewRun,
  Placement,
  RanAttempt,
  RunFilter,
  RunOutline,
  RunPatch,
  RunRow,
  TransitionRow,
} from "./row_types.ts";
import { type Reserve, withSpaceOf } from "../os/files/reserve.ts";
import type { Parameter } from "../records/parameters.ts";
import { LineageRows, type UseRow } from "./lineage/lineage_rows.ts";
import { GpuRows } from "./gpus/gpu_rows.ts";
import { SweepRows, type TrialOf } from "./sweeps/sweep_rows.ts";
import { Waiters } from "./waiters.ts";

/** A heartbeat is written to disk at most this often per run, in milliseconds. */
const HEARTBEAT_WRITE_MS = 5000;
/** Minimum interval between probes of whether the database can be written. */
const PROBE_MS = 5000;
/** For `transaction`: the write must succeed on a full disk; it adds few rows, or none. */
const ALWAYS = true;
/** "deleted" events are all that is left of a run; this many are kept. */
const DELETED_EVENTS_KEPT = 10_000;

export interface RegistryOptions {
  durability?: Durability;
  /** Unix milliseconds. */
  now?: () => number;
  /** Space for cancellations, ends and deletions on a full disk. */
  reserve?: Reserve;
}

export class Registry implements RunReader {
  readonly #sql: Sql;
  readonly #path: string;
  readonly #now: () => number;
  readonly #transitionWaiters = new Waiters();
  readonly #eventWaiters = new Waiters();
  readonly sweeps: SweepRows;
  readonly lineage: LineageRows;
  readonly gpus: GpuRows;
  #transitionHead: number;
  #eventHead: number;
  #writable = true;
  /** A transaction of several writes is under way. */
  #together = false;
  #probedAt = -Infinity;
  /** Newest heartbeats; `written` is the one in the run's row. */
  readonly #heartbeats = new Map<string, { at: number; written: number }>();

  /**
   * @throws {NewerSchemaError} when a newer mosaic wrote the file; MosaicError when it cannot be
   * opened.
   */
  static open(path: string, options: RegistryOptions = {}): Registry {
    const db = openDatabase(path, options.durability ?? "normal", options.reserve);
    try {
      return new Registry(db, path, options);
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Takes over an open database; `open` is what programs use. `path` is for messages. */
  constructor(db: DatabaseSync, path: string, options: RegistryOptions = {}) {
    this.#path = path;
    withSpaceOf(
      options.reserve,
      (error) => /disk is full/i.test(messageOf(error)),
      () => migrate(db, path),
    );
    this.#sql = new Sql(db, path, options.reserve);
    this.#now = options.now ?? Date.now;
    this.#transitionHead = this.#lastSeq("transitions");
    this.#eventHead = this.#lastSeq("events");
    this.sweeps = new SweepRows(
      this.#sql,
      (work) => this.#write(work),
      (runId, kind, data) => {
        const run = this.get(runId);
        if (run !== undefined) this.#addEvent(run, kind, data, this.#now());
      },
      this.#now,
    );
    this.lineage = new LineageRows(this.#sql, (work) => this.#write(work), this.#now);
    this.gpus = new GpuRows(
      this.#sql,
      (work, always) => this.#write(work, always),
      (runId) => {
        if (!isEnded(this.require(runId).state)) return;
        throw new MosaicError("failed_precondition", `run ${runId} has ended and can hold no GPU`);
      },
      this.#now,
    );
  }

  /**
   * Enters a run in INIT with its parameters, its first transition and a "queued" event, in one
   * transaction.
   * @param position in the queue, 1 is next; null: unknown
   * @param trial the run is this trial of a sweep, which is entered as made in the same transaction
   * @param uses what it will read
   * @throws `already_exists`
   */
  insert(
    run: NewRun,
    position: number | null = null,
    parameters: readonly Parameter[] = [],
    trial?: TrialOf,
    uses: readonly Omit<UseRow, "runId" | "at">[] = [],
  ): RunRow {
    return this.#write(() => {
      this.#requireFree(run.runId);
      const now = this.#now();
      const { columns, values } = runColumns({
        ...run,
        state: "INIT",
        attempt: 1,
        createdAt: now,
        updatedAt: now,
      });
      this.#sql.run(
        `INSERT INTO runs (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
        ...values,
      );
      const row = this.require(run.runId);
      this.#addParameters(run.runId, parameters);
      this.lineage.enterUses(run.runId, uses);
      if (trial !== undefined) this.sweeps.enterTrial(trial, run.runId, null);
      this.#addTransition({
        runId: run.runId,
        from: null,
        to: "INIT",
        event: "submit",
        reason: null,
        attempt: 1,
        at: now,
      });
      const { kind, data } = queuedEvent(row, position);
      this.#addEvent(row, kind, data, now);
      return row;
    });
  }

  /** Enters a run within a run, which has begun. Its parent's program runs it. */
  insertChild(run: NewChild): RunRow {
    return this.#write(() => {
      const now = this.#now();
      const times = { createdAt: now, startedAt: now, updatedAt: now };
      const { columns, values } = runColumns({ ...run, ...times, state: "EXECUTING", attempt: 1 });
      this.#sql.run(
        `INSERT INTO runs (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
        ...values,
      );
      const to = "EXECUTING";
      const transition = {
        from: null,
        to,
        event: "begun_within",
        reason: null,
        attempt: 1,
      } as const;
      this.#addTransition({ runId: run.runId, ...transition, at: now });
      const row = this.require(run.runId);
      this.#addEvent(row, "state", transition, now);
      return row;
    });
  }

  /** The id of the run within a run that has this key; it may be in the trash. */
  child(parent: string, key: string): string | undefined {
    return this.#sql.get("SELECT run_id FROM runs WHERE parent = ? AND child_key = ?", parent, key)
      ?.run_id as string;
  }

  /**
   * Trials are about to be announced by this run's records after `seq`, or after those that it
   * announced before.
   */
  expectTrials(runId: string, seq: number): void {
    this.#write(() =>
      this.#sql.run(
        "INSERT INTO trial_cursors VALUES (?, ?, 1) ON CONFLICT (run_id) DO UPDATE SET open = 1 WHERE open = 0",
        runId,
        seq,
      )
    );
  }

  /** The records up to `seq` have their runs. @param open more may come */
  trialsMade(runId: string, seq: number, open = true): void {
    this.#write(() =>
      this.#sql.run(
        "UPDATE trial_cursors SET seq = ?, open = ? WHERE run_id = ?",
        seq,
        Number(open),
        runId,
      )
    );
  }

  /**
   * The runs that may have announced trials without a run yet, except those that are being deleted;
   * of one run and those within it, or of all.
   */
  openTrials(of?: string): { runId: string; seq: number }[] {
    return this.#sql.all(
      `SELECT c.run_id, c.seq FROM trial_cursors c JOIN runs r ON r.run_id = c.run_id
       WHERE c.open = 1 AND (?1 IS NULL OR r.run_id = ?1 OR r.parent = ?1)
         AND coalesce(r.parent, r.run_id) NOT IN (SELECT run_id FROM deletions) AND r.deleted_at IS NULL`,
      of ?? null,
    ).map(({ run_id, seq }) => ({ runId: run_id as string, seq: seq as number }));
  }

  childrenOf(parent: string): number {
    return this.#sql.get("SELECT count(*) AS n FROM runs WHERE parent = ?", parent)!.n as number;
  }

  childIds(parent: string): string[] {
    return this.#sql.all("SELECT run_id FROM runs WHERE parent = ?", parent).map(({ run_id }) =>
      run_id as string
    );
  }

  liveChildren(parent: string): string[] {
    const live = JSON.stringify(LIVE_STATES);
    return this.#sql.all(
      "SELECT run_id FROM runs WHERE parent = ? AND state IN (SELECT value FROM json_each(?)) ORDER BY rowid",
      parent,
      live,
    ).map(({ run_id }) => run_id as string);
  }

  /** Runs with live runs within them. */
  parentsOfLive(): string[] {
    const live = JSON.stringify(LIVE_STATES);
    return this.#sql.all(
      "SELECT DISTINCT parent FROM runs WHERE parent IS NOT NULL AND state IN (SELECT value FROM json_each(?))",
      live,
    ).map(({ parent }) => parent as string);
  }

  /**
   * Copies an ended run, with the runs within it, from another registry of the same schema. @throws
   * `already_exists`
   */
  adopt(from: DatabaseSync, runId: string): void {
    this.#write(() => {
      for (const id of [runId, ...childIdsOf(from, runId)]) this.#requireFree(id);
      copyRun(from, runId, (sql, ...values) => this.#sql.run(sql, ...values));
      this.#transitionHead = this.#lastSeq("transitions");
      this.#eventHead = this.#lastSeq("events");
    });
  }

  /** @throws `already_exists` */
  #requireFree(runId: string): void {
    const known = this.known(runId);
    if (known === undefined) return;
    const where = known.deletedAt === null ? "" : " in the trash";
    throw new MosaicError("already_exists", `run ${runId} already exists${where}`, {
      hint: known.deletedAt === null
        ? "Omit the run id to get a new one."
        : `To have it back: mosaic restore ${runId}; to free its id: mosaic delete --forever ${runId}`,
    });
  }

  /** Not of a run in the trash, which is for everybody as if it were deleted. */
  get(runId: string): RunRow | undefined {
    const run = this.known(runId);
    return run?.deletedAt === null ? run : undefined;
  }

  /** Also of a run in the trash. */
  known(runId: string): RunRow | undefined {
    const row = this.#sql.get(`${SELECT_RUN} WHERE run_id = ?`, runId);
    return row === undefined ? undefined : this.#runFrom(row);
  }

  /** @throws `not_found`. */
  require(runId: string): RunRow {
    const run = this.known(runId);
    if (run?.deletedAt === null) return run;
    throw new MosaicError("not_found", `there is no run ${JSON.stringify(runId)}`, {
      ...(run === undefined ? {} : { hint: `It is in the trash: mosaic restore ${runId}` }),
    });
  }

  /**
   * By id, unique id prefix, unique name, or "@last". @throws `not_found` (with similar names),
   * `invalid_argument` (ambiguous, with the matches).
   */
  resolve(ref: string, owner?: string): RunRow {
    if (ref === "@last") {
      // In order of insertion: the clock may have been set back.
      const row = this.#sql.get(
        `${SELECT_RUN} WHERE parent IS NULL AND deleted_at IS NULL AND (?1 IS NULL OR owner = ?1)
          ORDER BY rowid DESC LIMIT 1`,
        owner ?? null,
      );
      if (row === undefined) throw new MosaicError("not_found", "no run has been submitted yet");
      return this.#runFrom(row);
    }
    const exact = this.get(ref) ?? this.get(ref.toUpperCase());
    if (exact !== undefined && (owner === undefined || exact.owner === owner)) return exact;
    return this.require(resolveRunId(this.#sql, ref, false, owner));
  }

  /** As `resolve`, of the runs in the trash; "@last" is the one that went there last. */
  resolveDeleted(ref: string, owner?: string): RunRow {
    if (ref === "@last") {
      const row = this.#sql.get(
        `${SELECT_RUN} WHERE deleted_at IS NOT NULL AND (?1 IS NULL OR owner = ?1)
          ORDER BY deleted_at DESC, parent IS NOT NULL, rowid DESC LIMIT 1`,
        owner ?? null,
      );
      if (row === undefined) throw new MosaicError("not_found", "the trash is empty");
      return this.#runFrom(row);
    }
    const exact = this.known(ref) ?? this.known(ref.toUpperCase());
    const isMeant = exact !== undefined && exact.deletedAt !== null &&
      (owner === undefined || exact.owner === owner);
    return isMeant ? exact : this.known(resolveRunId(this.#sql, ref, true, owner))!;
  }

  /**
   * Puts an ended run into the trash with the runs within it: from then on nothing shows it, and
   * `restore` brings it back as it was. @throws `not_found`, `failed_precondition`
   */
  trash(runId: string): RunRow {
    return this.#write(() => {
      const run = this.require(runId);
      requireEnded(run);
      const now = this.#now();
      for (
        const id of [
          ...this.childIds(runId).filter((child) => this.get(child) !== undefined),
          runId,
        ]
      ) {
        const row = this.require(id);
        this.gpus.release(id);
        this.#store(id, { deletedAt: now });
        this.#addEvent(
          row,
          "trashed",
          { name: row.name, state: row.state, reason: row.reason },
          now,
        );
      }
      return this.known(runId)!;
    }, ALWAYS);
  }

  /**
   * Brings a run back from the trash, with the runs within it that went there with it. @throws
   * `not_found`, `failed_precondition`
   */
  restore(runId: string): RunRow {
    return this.#write(() => {
      const run = this.known(runId);
      if (run === undefined || run.deletedAt === null) {
        throw new MosaicError("not_found", `there is no run ${JSON.stringify(runId)} in the trash`);
      }
      if (this.beingDeleted().includes(runId)) {
        throw new MosaicError("failed_precondition", `run ${runId} is being deleted for good`);
      }
      if (run.parent !== null && this.get(run.parent) === undefined) {
        throw new MosaicError(
          "failed_precondition",
          `run ${runId} is within run ${run.parent}, which is in the trash`,
          {
            hint: `Restore that one: mosaic restore ${run.parent}`,
          },
        );
      }
      for (const id of [runId, ...this.childIds(runId)]) {
        const row = this.known(id)!;
        if (row.deletedAt !== run.deletedAt) continue;
        this.#store(id, { deletedAt: null });
        this.#sql.run("DELETE FROM events WHERE run_id = ? AND kind = 'trashed'", id);
        this.#addEvent(row, "restored", {}, this.#now());
      }
      return this.require(runId);
    }, ALWAYS);
  }

  /** Newest first. */
  byDigest(digest: string): RunRow[] {
    return this.#sql.all(`${SELECT_RUN} WHERE digest = ? ${NEWEST_FIRST}`, digest).map((row) =>
      this.#runFrom(row)
    );
  }

  /**
   * Newest submitted first, or oldest; fewer than `limit` where rows are large. `token` is the
   * `nextToken` of the previous page: a position in the order, so that paging continues even if
   * runs are submitted or deleted in between.
   * @throws `invalid_argument` for a token that no page returned.
   */
  list(
    filter: RunFilter,
    page: { limit: number; token?: string; oldestFirst?: boolean },
  ): { runs: RunRow[]; nextToken: string | undefined } {
    const { conditions, values } = conditionsOf(filter);
    if (page.token) {
      const [createdAt, runId] = placeOf(page.token);
      conditions.push(`(created_at, run_id) ${page.oldestFirst ? ">" : "<"} (?, ?)`);
      values.push(createdAt, runId);
    }
    const order = page.oldestFirst ? OLDEST_FIRST : NEWEST_FIRST;
    const sizes = this.#sql.all(
      `SELECT ${ROW_BYTES} AS bytes FROM runs ${where(conditions)} ${order} LIMIT ?`,
      ...values,
      Math.max(1, Math.trunc(page.limit)),
    );
    const limit = fitting(sizes.map(({ bytes }) => bytes as number));
    const rows = this.#sql.all(
      `${SELECT_RUN} ${where(conditions)} ${order} LIMIT ?`,
      ...values,
      limit + 1,
    );
    const runs = rows.slice(0, limit).map((row) => this.#runFrom(row));
    const last = runs.at(-1);
    return { runs, nextToken: rows.length > limit && last ? tokenAfter(last) : undefined };
  }

  count(filter: RunFilter): number {
    const { conditions, values } = conditionsOf(filter);
    return this.#sql.get(`SELECT count(*) AS n FROM runs ${where(conditions)}`, ...values)!
      .n as number;
  }

  outlines(filter: RunFilter): RunOutline[] {
    const { conditions, values } = conditionsOf(filter);
    return this.#sql.all(
      `SELECT ${OUTLINE_COLUMNS}, ${ROW_BYTES} AS bytes FROM runs ${
        where(conditions)
      } ${NEWEST_FIRST}`,
      ...values,
    ).map(outlineFrom);
  }

  objectives(): Map<string, string> {
    const rows = this.#sql.all(
      `SELECT run_id, json_extract(config_json, '$.metadata.objective') AS objective FROM runs
        WHERE deleted_at IS NULL AND instr(config_json, '"objective"') > 0 AND json_valid(config_json)`,
    );
    return new Map(
      rows.flatMap(({ run_id, objective }) =>
        typeof objective === "string" ? [[run_id as string, objective]] : []
      ),
    );
  }

  owners(): Map<string, string> {
    const rows = this.#sql.all("SELECT run_id, owner FROM runs");
    return new Map(rows.map((row) => [row.run_id as string, row.owner as string]));
  }

  countByState(owner?: string): Record<string, number> {
    const rows = this.#sql.all(
      `SELECT state, count(*) AS n FROM runs WHERE parent IS NULL AND deleted_at IS NULL
        AND (?1 IS NULL OR owner = ?1) GROUP BY state`,
      owner ?? null,
    );
    return Object.fromEntries(rows.map((row) => [row.state as string, row.n as number]));
  }

  /**
   * Runs that have not ended, oldest first; those within a run have no processes and are not among
   * them.
   */
  live(): RunRow[] {
    return this.#live("");
  }

  /** Those of them whose worker is known: thousands may wait, with large configs. */
  working(): RunRow[] {
    return this.#live("AND worker IS NOT NULL");
  }

  #live(and: string): RunRow[] {
    return this.#sql.all(
      `${SELECT_RUN} WHERE state IN (SELECT value FROM json_each(?)) AND parent IS NULL ${and} ORDER BY created_at, run_id`,
      JSON.stringify(LIVE_STATES),
    ).map((row) => this.#runFrom(row));
  }

  /**
   * Attempts on the daemon's own host that ran after `since`, Unix milliseconds, with the GPUs that
   * they had asked for and their run's owner. Scans all transitions.
   */
  attemptsSince(since: number): RanAttempt[] {
    const attempts: RanAttempt[] = [];
    const running = new Map<string, typeof attempts[number]>();
    const rows = this.#sql.all(
      `SELECT run_id, event, to_state, at, gpus_requested, gpu_share, gpu_memory_mb, owner
       FROM transitions JOIN runs USING (run_id)
       WHERE (event = 'spawned' OR to_state IN (SELECT value FROM json_each(?))) AND at > ?
         AND NOT EXISTS (SELECT 1 FROM placements WHERE placements.run_id = runs.run_id)
       ORDER BY seq`,
      JSON.stringify([...ENDED_STATES, "INIT"]),
      since,
    );
    for (const { run_id, event, at, gpus_requested, gpu_share, gpu_memory_mb, owner } of rows) {
      const runId = run_id as string;
      const begun = running.get(runId);
      if (event === "spawned") {
        const attempt = {
          runId,
          owner: owner as string,
          gpusRequested: gpus_requested as number,
          gpuShare: gpu_share as number | null,
          gpuMemoryMb: gpu_memory_mb as number | null,
          from: at as number,
          to: null,
        };
        running.set(runId, attempt);
        attempts.push(attempt);
      } else if (begun !== undefined) {
        begun.to = at as number;
        running.delete(runId);
      }
    }
    return attempts;
  }

  /** Runs on the daemon's own host that have processes, by owner. */
  runningByOwner(): { owner: string; count: number }[] {
    return this.#sql.all(
      `SELECT owner, count(*) AS n FROM runs
       WHERE state IN (SELECT value FROM json_each(?)) AND parent IS NULL
         AND NOT EXISTS (SELECT 1 FROM placements WHERE placements.run_id = runs.run_id)
       GROUP BY owner`,
      JSON.stringify(RUNNING_STATES),
    ).map(({ owner, n }) => ({ owner: owner as string, count: n as number }));
  }

  sessionTokens(): { runId: string; token: string }[] {
    return this.#sql.all(
      `SELECT run_id, session_token FROM runs
       WHERE state IN (SELECT value FROM json_each(?)) AND session_token IS NOT NULL`,
      JSON.stringify(LIVE_STATES),
    ).map((row) => ({ runId: row.run_id as string, token: row.session_token as string }));
  }

  /** Runs with an unreadable state, so that it is unknown whether they are live. */
  ofUnknownState(): RunRow[] {
    // The inner query scans all runs, in an index only.
    return this.#sql.all(
      `${SELECT_RUN} WHERE run_id IN (SELECT run_id FROM runs WHERE state NOT IN (SELECT value FROM json_each(?)))
       ${OLDEST_FIRST}`,
      JSON.stringify(RUN_STATES),
    ).map((row) => this.#runFrom(row));
  }

  /**
   * The only writer of run state: applies the pure transition, what it implies
   * (src/registry/effects.ts), the patch, the release of GPU slots (when the run ends or returns to
   * INIT), the transition's row and its "state" event in one transaction. An idempotent event
   * writes nothing, not even the patch. `furtherEvent` may add an event to it.
   *
   * @throws `not_found`; `failed_precondition` when the run's state does not allow the event.
   */
  apply(
    runId: string,
    event: LifecycleEvent,
    patch: RunPatch = {},
    furtherEvent?: (after: RunRow) => EventToAppend,
  ): RunRow {
    return this.#write(() => {
      const before = this.require(runId);
      const from = before.damaged.includes("state") ? null : before.state;
      const { to, attemptDelta } = { attemptDelta: 0, ...transition(from, event) };
      if (to === undefined) return before;
      const now = this.#now();
      const attempt = before.attempt + attemptDelta;
      const implied = effectsOf(event, to, now);
      // The newest heartbeat may be in memory only, and an ended run has no later one that would
      // write it.
      if (isEnded(to)) implied.lastHeartbeatAt = before.lastHeartbeatAt;
      if (isEnded(to) || to === "INIT") this.#pastToken(before);
      this.#store(runId, { ...implied, ...patchOnly(patch), state: to, attempt, updatedAt: now });
      if (isEnded(to) || to === "INIT") this.gpus.release(runId);
      const reason = "reason" in event ? event.reason : null;
      this.#addTransition({ runId, from, to, event: event.type, reason, attempt, at: now });
      const after = this.require(runId);
      this.#addEvent(after, "state", { from, to, event: event.type, reason, attempt }, now);
      const further = furtherEvent?.(after);
      if (further !== undefined) this.#addEvent(after, further.kind, further.data, now);
      return after;
    }, ALWAYS);
  }

  /** The ended attempt whose proxy or worker had this token. */
  pastAttempt(token: string): { runId: string; attempt: number } | undefined {
    const row = this.#sql.get(
      "SELECT run_id, attempt FROM past_tokens WHERE hash = ?",
      tokenHash(token),
    );
    return row && { runId: row.run_id as string, attempt: row.attempt as number };
  }

  #pastToken({ runId, attempt, sessionToken }: RunRow): void {
    if (sessionToken === null) return;
    for (const token of [sessionToken, workerToken(sessionToken)]) {
      this.#sql.run(
        "INSERT OR IGNORE INTO past_tokens (hash, run_id, attempt) VALUES (?, ?, ?)",
        tokenHash(token),
        runId,
        attempt,
      );
    }
  }

  /** Changes fields outside of the lifecycle. @throws `not_found`. */
  update(runId: string, patch: RunPatch): RunRow {
    return this.#write(() => {
      this.require(runId);
      this.#store(runId, { ...patchOnly(patch), updatedAt: this.#now() });
      return this.require(runId);
    }, ALWAYS);
  }

  /** `update` by a person: with an event. @throws `not_found` */
  edit(runId: string, patch: Pick<RunPatch, "name" | "tags" | "notes">): RunRow {
    return this.#write(() => {
      this.require(runId);
      this.#store(runId, { ...patchOnly(patch), updatedAt: this.#now() });
      const row = this.require(runId);
      this.#addEvent(row, "edited", patch, this.#now());
      return row;
    });
  }

  /**
   * Stores what ran in an attempt, 0 for the submission, which is stored once. `decide` gets all
   * records of the run and returns what has changed since its submission, in words; "": nothing.
   */
  recordCode(
    runId: string,
    record: NewCode,
    decide: (records: readonly CodeRow[]) => { text: string; files: string[] },
  ): void {
    this.#write(() => {
      const row = this.require(runId);
      storeCode(this.#sql, runId, record, this.#now());
      const { text, files } = decide(codeRows(this.#sql, runId));
      if (text === row.codeChanged) return;
      this.#store(runId, { codeChanged: text, updatedAt: this.#now() });
      if (text !== "") this.#addEvent(row, "code_changed", { files }, this.#now());
    });
  }

  code(runId: string): CodeRow[] {
    return codeRows(this.#sql, runId);
  }

  /** zstd; undefined for an unknown hash. */
  codeText(hash: string): Uint8Array | undefined {
    return codeText(this.#sql, hash);
  }

  /** Cheap: last_heartbeat only, held in memory and written at most every 5 s per run. */
  touchHeartbeat(runId: string, at: number): void {
    const known = this.#heartbeats.get(runId);
    if (known !== undefined && at - known.written < HEARTBEAT_WRITE_MS) {
      known.at = Math.max(known.at, at);
      return;
    }
    this.#heartbeats.set(runId, { at, written: at });
    try {
      this.#writeHeartbeat(runId, at);
    } catch (error) {
      // The one in memory counts: a full disk must not make a live worker look dead.
      if (!(error instanceof MosaicError && error.code === "unavailable")) throw error;
    }
  }

  /**
   * Stores an attempt's placement, replacing the earlier one. @throws `not_found` for a run that is
   * deleted
   */
  putPlacement(placement: Placement): void {
    const {
      runId,
      attempt,
      launcher,
      tries,
      name,
      job,
      submittedAt,
      phase,
      waitingFor,
      expectedStart,
    } = placement;
    this.#write(() => {
      this.require(runId);
      this.#sql.run(
        `INSERT OR REPLACE INTO placements (run_id, attempt, launcher, tries, name, job, submitted_at, phase, waiting_for,
           expected_start, nodes, gpus, ended, requested_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[
          runId,
          attempt,
          launcher,
          tries,
          name,
          job,
          submittedAt,
          phase,
          waitingFor,
          expectedStart,
        ],
        ...[
          JSON.stringify(placement.nodes),
          JSON.stringify(placement.gpus),
          placement.end,
          placement.requestedAt,
        ],
      );
      this.#store(runId, { updatedAt: this.#now() });
    }, ALWAYS);
  }

  /** Placements whose engine may still have processes of the job, oldest first. */
  openPlacements(): Placement[] {
    return this.#sql.all(`${SELECT_PLACEMENT} WHERE phase <> 'ended' ORDER BY requested_at`).map(
      placementFrom,
    );
  }

  transitions(runId: string): TransitionRow[] {
    return this.#sql.all("SELECT * FROM transitions WHERE run_id = ? ORDER BY seq", runId).map(
      transitionFrom,
    );
  }

  /** Those with a higher seq, ascending. */
  transitionsSince(seq: number, limit: number, owner?: string): TransitionRow[] {
    return this.#sql.all(
      `SELECT * FROM transitions WHERE seq > ?1 ${
        owner === undefined ? "" : "AND run_id IN (SELECT run_id FROM runs WHERE owner = ?3)"
      } ORDER BY seq LIMIT ?2`,
      ...[seq, limit, ...(owner === undefined ? [] : [owner])],
    ).map(transitionFrom);
  }

  /** The newest seq; 0 when there is none. It never goes back, not even when runs are deleted. */
  transitionHead(): number {
    return this.#transitionHead;
  }

  /** Resolves when there is a transition after `seq`, or when the signal aborts. */
  waitTransitionsBeyond(seq: number, signal: AbortSignal): Promise<void> {
    return this.#transitionWaiters.wait(seq, this.#transitionHead, signal);
  }

  /** @throws `not_found`. */
  appendEvent(runId: string, kind: EventKind, data: Record<string, unknown>): EventRow {
    return this.#write(() => this.#addEvent(this.require(runId), kind, data, this.#now()));
  }

  /** Appends an event that replaces the run's earlier ones of this kind. @throws `not_found`. */
  replaceEvent(runId: string, kind: EventKind, data: Record<string, unknown>): EventRow {
    return this.#write(() => {
      this.#sql.run("DELETE FROM events WHERE run_id = ? AND kind = ?", runId, kind);
      return this.#addEvent(this.require(runId), kind, data, this.#now());
    });
  }

  /** Those with a higher seq, ascending. */
  eventsSince(seq: number, options: EventFilter & { limit: number }): EventRow[] {
    const { conditions, values } = eventConditions(options);
    return this.#sql.all(
      `SELECT * FROM events ${where([...conditions, "seq > ?"])} ORDER BY seq LIMIT ?`,
      ...values,
      seq,
      options.limit,
    ).map(eventFrom);
  }

  /** The seq after which the newest `count` events of this kind begin; 0 when there are no more. */
  seqBeforeNewest(count: number, filter: EventFilter): number {
    const { conditions, values } = eventConditions(filter);
    const row = this.#sql.get(
      `SELECT seq FROM events ${where(conditions)} ORDER BY seq DESC LIMIT 1 OFFSET ?`,
      ...values,
      count,
    );
    return (row?.seq ?? 0) as number;
  }

  /** The newest seq; 0 when there is none. It never goes back. */
  eventHead(): number {
    return this.#eventHead;
  }

  /** Resolves when there is an event (of any run) after `seq`, or when the signal aborts. */
  waitEventsBeyond(seq: number, signal: AbortSignal): Promise<void> {
    return this.#eventWaiters.wait(seq, this.#eventHead, signal);
  }

  /** Records an artifact or its new state. `sha256` is "" until it is known. */
  putArtifact(artifact: NewArtifact): void {
    this.putArtifacts([artifact]);
  }

  /** Several in one transaction; each new one gets an "artifact" event. @throws `not_found`. */
  putArtifacts(artifacts: readonly NewArtifact[]): void {
    this.#write(() => {
      for (const artifact of artifacts) {
        const { runId, path, kind, bytes, sha256, step, windowId, at, deletedAt = null } = artifact;
        const run = this.require(runId);
        const known = this.artifact(runId, path) !== undefined;
        this.#sql.run(
          `INSERT INTO artifacts (run_id, path, kind, bytes, sha256, step, window_id, at, deleted_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (run_id, path) DO UPDATE SET kind = excluded.kind, bytes = excluded.bytes,
             sha256 = excluded.sha256, step = excluded.step, window_id = excluded.window_id, at = excluded.at,
             deleted_at = excluded.deleted_at`,
          runId,
          path,
          kind,
          bytes,
          sha256,
          step,
          windowId,
          Math.trunc(at),
          deletedAt,
        );
        const shownIn = windowId === "" ? {} : { window_id: windowId };
        if (!known) {
          this.#addEvent(run, "artifact", { path, kind, bytes, step, ...shownIn }, this.#now());
        }
      }
    });
  }

  parameters(runId: string): Parameter[] {
    return this.#sql.all(
      "SELECT name, source, value FROM parameters WHERE run_id = ?",
      runId,
    ) as unknown as Parameter[];
  }

  parametersNamed(name: string): (Parameter & { runId: string })[] {
    return this.#sql.all(
      "SELECT run_id AS runId, name, source, value FROM parameters WHERE name = ?",
      name,
    ) as unknown as (Parameter & { runId: string })[];
  }

  parameterNames(owner?: string): string[] {
    return this.#sql.all(
      `SELECT DISTINCT parameters.name AS name FROM parameters JOIN runs USING (run_id)
        WHERE deleted_at IS NULL AND (?1 IS NULL OR owner = ?1) ORDER BY 1`,
      owner ?? null,
    ).map((row) => row.name as string);
  }

  /** Gives runs of earlier versions their parameters, at most `limit` of them. @returns how many */
  readDueParameters(limit: number, read: (configJson: string) => readonly Parameter[]): number {
    const due = this.#sql.all(
      "SELECT run_id, config_json FROM parameters_due JOIN runs USING (run_id) LIMIT ?",
      limit,
    );
    // A daemon starts on a full disk, too: where nothing is due, nothing is written.
    if (due.length === 0) return 0;
    return this.#write(() => {
      for (const { run_id, config_json } of due) {
        this.#addParameters(run_id as string, read(config_json as string));
        this.#sql.run("DELETE FROM parameters_due WHERE run_id = ?", run_id as string);
      }
      return due.length;
    });
  }

  /**
   * Enters the defaults of Slurm into runs of earlier versions, which lack them. @returns how many
   */
  enterDueSlurmDefaults(entered: (configJson: string) => string): number {
    const due = this.#sql.all(
      "SELECT run_id, config_json FROM slurm_defaults_due JOIN runs USING (run_id)",
    );
    // As above.
    if (due.length === 0) return 0;
    return this.#write(() => {
      for (const { run_id, config_json } of due) {
        this.#sql.run(
          "UPDATE runs SET config_json = ? WHERE run_id = ?",
          entered(config_json as string),
          run_id as string,
        );
      }
      this.#sql.run("DELETE FROM slurm_defaults_due");
      return due.length;
    }, true);
  }

  #addParameters(runId: string, parameters: readonly Parameter[]): void {
    for (const { name, source, value } of parameters) {
      this.#sql.run(
        "INSERT OR REPLACE INTO parameters VALUES (?, ?, ?, ?)",
        runId,
        name,
        source,
        value,
      );
    }
  }

  artifact(runId: string, path: string): ArtifactRow | undefined {
    const row = this.#sql.get("SELECT * FROM artifacts WHERE run_id = ? AND path = ?", runId, path);
    return row === undefined ? undefined : artifactFrom(row);
  }

  artifacts(runId: string): ArtifactRow[] {
    return this.#sql.all("SELECT * FROM artifacts WHERE run_id = ? ORDER BY path", runId).map(
      artifactFrom,
    );
  }

  /** The file is gone. */
  removeArtifact(runId: string, path: string): void {
    this.#sql.run("DELETE FROM artifacts WHERE run_id = ? AND path = ?", runId, path);
  }

  /** Ids of runs that have artifacts without a checksum. */
  runsWithUnhashedArtifacts(): string[] {
    return this.#sql.all(
      "SELECT DISTINCT run_id FROM artifacts WHERE sha256 = '' AND path NOT LIKE '/%'",
    ).map((row) => row.run_id as string);
  }

  /** Records, durably, that a run is being deleted; `delete` and `keep` end that. */
  beginDelete(runId: string): void {
    this.#write(
      () => this.#sql.run("INSERT OR IGNORE INTO deletions (run_id) VALUES (?)", runId),
      ALWAYS,
    );
  }

  /** The run is not deleted after all. */
  keep(runId: string): void {
    this.#write(() => this.#sql.run("DELETE FROM deletions WHERE run_id = ?", runId), ALWAYS);
  }

  /** Runs whose deletion has begun and not ended. */
  beingDeleted(): string[] {
    return this.#sql.all("SELECT run_id FROM deletions").map((row) => String(row.run_id));
  }

  /**
   * Removes an ended run's rows, except its "deleted" event (with its name). @throws `not_found`,
   * `failed_precondition`
   */
  delete(runId: string): void {
    this.#write(() => {
      const run = this.known(runId) ?? this.require(runId);
      requireEnded(run);
      this.#sql.run("DELETE FROM events WHERE run_id = ?", runId);
      const { seq } = this.#addEvent(
        run,
        "deleted",
        { name: run.name, state: run.state, reason: run.reason },
        this.#now(),
      );
      this.#sql.run(
        "DELETE FROM events WHERE kind = 'deleted' AND seq <= ?",
        seq - DELETED_EVENTS_KEPT,
      );
      this.gpus.release(runId);
      this.#sql.run("DELETE FROM runs WHERE run_id = ?", runId);
      this.#heartbeats.delete(runId);
    }, ALWAYS);
  }

  /** Whether the database can be written, by an empty write, at most every few seconds. */
  writable(): boolean {
    const now = this.#now();
    if (Math.abs(now - this.#probedAt) >= PROBE_MS) {
      this.#probedAt = now;
      this.#writable = this.#sql.probe();
    }
    return this.#writable;
  }

  /** Bytes of the database with its write-ahead log. */
  fileBytes(): number {
    return [this.#path, `${this.#path}-wal`].reduce((sum, path) => sum + fileBytes(path), 0);
  }

  close(): void {
    for (const [runId, { at, written }] of this.#heartbeats) {
      try {
        if (at > written) this.#writeHeartbeat(runId, at);
      } catch {
        // Closing must not fail for a heartbeat that is some seconds old on disk.
        break;
      }
    }
    this.#transitionWaiters.wakeAll();
    this.#eventWaiters.wakeAll();
    this.#sql.close();
  }

  /** Several writes in one transaction: all of them, or none. */
  together<T>(work: () => T): T {
    return this.#write(() => {
      this.#together = true;
      try {
        return work();
      } finally {
        this.#together = false;
      }
    });
  }

  /** Runs `work` in a transaction; waiters are woken after the commit. */
  #write<T>(work: () => T, always = false): T {
    const transitionHead = this.#transitionHead;
    const eventHead = this.#eventHead;
    try {
      if (this.#together) return this.#sql.part(work);
      const result = this.#sql.transaction(work, always);
      if (this.#transitionHead > transitionHead) this.#transitionWaiters.wake(this.#transitionHead);
      if (this.#eventHead > eventHead) this.#eventWaiters.wake(this.#eventHead);
      return result;
    } catch (error) {
      this.#transitionHead = transitionHead;
      this.#eventHead = eventHead;
      throw error;
    }
  }

  #store(runId: string, fields: Partial<RunRow>): void {
    const { columns, values } = runColumns(fields);
    this.#sql.run(
      `UPDATE runs SET ${columns.map((c) => `${c} = ?`).join(", ")} WHERE run_id = ?`,
      ...values,
      runId,
    );
    if (fields.lastHeartbeatAt !== undefined) this.#heartbeats.delete(runId);
  }

  #addTransition(row: Omit<TransitionRow, "seq">): void {
    this.#transitionHead = this.#sql.run(
      "INSERT INTO transitions (run_id, from_state, to_state, event, reason, attempt, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      row.runId,
      row.from,
      row.to,
      row.event,
      row.reason,
      row.attempt,
      row.at,
    ).lastId;
  }

  #addEvent(run: RunRow, kind: EventKind, data: Record<string, unknown>, at: number): EventRow {
    const dataJson = eventJson(data);
    const { lastId: seq } = this.#sql.run(
      "INSERT INTO events (at, run_id, run_name, kind, attempt, data_json) VALUES (?, ?, ?, ?, ?, ?)",
      at,
      run.runId,
      run.name,
      kind,
      run.attempt,
      dataJson,
    );
    this.#eventHead = seq;
    return { seq, at, runId: run.runId, runName: run.name, kind, attempt: run.attempt, dataJson };
  }

  #writeHeartbeat(runId: string, at: number): void {
    this.#sql.run("UPDATE runs SET last_heartbeat_at = ? WHERE run_id = ?", Math.trunc(at), runId);
  }

  #runFrom(row: SqlRow): RunRow {
    const run = runFrom(row);
    const heartbeat = this.#heartbeats.get(run.runId);
    if (heartbeat !== undefined) {
      run.lastHeartbeatAt = Math.max(heartbeat.at, run.lastHeartbeatAt ?? 0);
    }
    return run;
  }

  /** The highest seq ever assigned, deleted rows included, as AUTOINCREMENT keeps it. */
  #lastSeq(table: string): number {
    return (this.#sql.get("SELECT seq FROM sqlite_sequence WHERE name = ?", table)?.seq ??
      0) as number;
  }
}

/** @throws MosaicError `failed_precondition` */
function requireEnded({ runId, state }: RunRow): void {
  if (isEnded(state)) return;
  throw new MosaicError("failed_precondition", `run ${runId} is ${state} and cannot be deleted`, {
    hint: "Cancel it first.",
  });
}

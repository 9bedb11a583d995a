/** The rows of sweeps, of their trials, and of what early stopping has decided about them. */
import { MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { ENDED_STATES, LIVE_STATES, type RunState } from "../lifecycle/lifecycle.ts";

type SqlRow = Record<string, unknown>;
type SqlValue = string | number | null;

/** The registry's database. */
interface Sql {
  get(sql: string, ...values: SqlValue[]): SqlRow | undefined;
  all(sql: string, ...values: SqlValue[]): SqlRow[];
  run(sql: string, ...values: SqlValue[]): { changes: number };
}

/** Adds an event within a transaction; does nothing for a run that is deleted. */
type AddEvent = (runId: string, kind: "rung", data: Record<string, unknown>) => void;

/**
 * What becomes of a sweep:
 * - `running`: further trials are made as places become free
 * - `paused`: no further trials are made; those that are made continue
 * - `cancelling`: its live trials are being asked to end
 * - `cancelled`: no further trials are made, and all live ones were asked to end
 * - `finished`: all trials are made and have ended, or the budget is spent
 */
export type SweepState = "running" | "paused" | "cancelling" | "cancelled" | "finished";

export interface SweepRow {
  sweepId: string;
  name: string;
  state: SweepState;
  /**
   * Read when it is asked for: it may have megabytes, and lists and passes need it once for each
   * sweep.
   */
  readonly specJson: string;
  /** Who began it, as `submitter` of a run. */
  submitter: string;
  /** Trials 0 to nextTrial - 1 are made. */
  nextTrial: number;
  createdAt: number;
  updatedAt: number;
}

/** A place in a sweep: trial numbers count from 0. */
export interface TrialOf {
  sweepId: string;
  trial: number;
}

/** A trial with what the list of runs knows of its run. */
export interface TrialRow {
  trial: number;
  /** Null: the daemon refused its config. */
  runId: string | null;
  refusal: string | null;
  /** Null: it was refused, or its run is deleted or in the trash. */
  state: RunState | null;
  name: string | null;
  reason: string | null;
  attempt: number | null;
  startedAt: number | null;
  finishedAt: number | null;
}

/** A trial's value at a rung, and what was decided. */
export interface SweepReport {
  trial: number;
  rung: number;
  step: number;
  /**
   * The metric's value at the rung, NaN if it is not finite; the mean and the best of all values up
   * to it.
   */
  value: number;
  mean: number;
  best: number;
  stops: boolean;
  /** It waits at this rung, paused. A later report of the same rung says what became of it. */
  holds: boolean;
  reason: string;
  /** Of the run, then. */
  attempt: number;
  at: number;
}

/** Of the column `stops`. */
const [GOES_ON, STOPS, HOLDS] = [0, 1, 2];

const SELECT_SWEEP =
  "SELECT sweep_id, name, state, submitter, next_trial, created_at, updated_at FROM sweeps";

const SELECT_TRIALS =
  `SELECT t.trial, t.run_id, t.refusal, r.state, r.name, r.reason, r.attempt, r.started_at, r.finished_at
  FROM sweep_trials t LEFT JOIN runs r ON r.run_id = t.run_id AND r.deleted_at IS NULL`;

export class SweepRows {
  readonly #sql: Sql;
  readonly #write: <T>(work: () => T) => T;
  readonly #addEvent: AddEvent;
  readonly #now: () => number;

  constructor(sql: Sql, write: <T>(work: () => T) => T, addEvent: AddEvent, now: () => number) {
    this.#sql = sql;
    this.#write = write;
    this.#addEvent = addEvent;
    this.#now = now;
  }

  /**
   * @throws `already_exists` for a name that another sweep has; the sweep of the same id is
   * returned as it is
   */
  insert(
    { sweepId, name, specJson, submitter }: Pick<
      SweepRow,
      "sweepId" | "name" | "specJson" | "submitter"
    >,
  ): SweepRow {
    return this.#write(() => {
      const known = this.get(sweepId);
      if (known !== undefined) return known;
      if (this.#sql.get("SELECT 1 FROM sweeps WHERE name = ?", name) !== undefined) {
        throw new MosaicError(
          "already_exists",
          `there is a sweep ${JSON.stringify(name)} already`,
          {
            hint: `Give another --name, or add trials to it: mosaic sweep extend ${name}`,
          },
        );
      }
      const now = this.#now();
      this.#sql.run(
        "INSERT INTO sweeps (sweep_id, name, state, spec_json, submitter, next_trial, created_at, updated_at) VALUES (?, ?, 'running', ?, ?, 0, ?, ?)",
        ...[sweepId, name, specJson, submitter, now, now],
      );
      return this.get(sweepId)!;
    });
  }

  get(sweepId: string): SweepRow | undefined {
    const row = this.#sql.get(`${SELECT_SWEEP} WHERE sweep_id = ?`, sweepId);
    return row === undefined ? undefined : this.#sweepFrom(row);
  }

  hasName(name: string): boolean {
    return this.#sql.get("SELECT 1 FROM sweeps WHERE name = ?", name) !== undefined;
  }

  /** By name, id, or "@last". @throws `not_found` with a similar name */
  resolve(ref: string, owner: string | null = null): SweepRow {
    const row = ref === "@last"
      ? this.#sql.get(
        `${SELECT_SWEEP} WHERE ?1 IS NULL OR submitter = ?1
          ORDER BY created_at DESC, sweep_id DESC LIMIT 1`,
        owner,
      )
      : this.#sql.get(
        `${SELECT_SWEEP} WHERE (name = ?1 OR sweep_id = ?1) AND (?2 IS NULL OR submitter = ?2)
          ORDER BY name = ?1 DESC LIMIT 1`,
        ref,
        owner,
      );
    if (row !== undefined) return this.#sweepFrom(row);
    if (ref === "@last") throw new MosaicError("not_found", "there is no sweep yet");
    const newest = this.#sql.all(
      `SELECT name FROM sweeps
      WHERE ?1 IS NULL OR submitter = ?1 ORDER BY created_at DESC LIMIT 1000`,
      owner,
    );
    const names = newest.map(({ name }) => name as string);
    throw new MosaicError(
      "not_found",
      `there is no sweep ${JSON.stringify(ref)}.${didYouMean(ref, names)}`,
      {
        hint: "All sweeps: mosaic sweep list",
      },
    );
  }

  count(): number {
    return this.#sql.get("SELECT count(*) AS n FROM sweeps")!.n as number;
  }

  /** Bytes of the specs of unfinished sweeps, without this one. */
  unfinishedBytes(without: string): number {
    return this.#sql.get(
      "SELECT coalesce(sum(octet_length(spec_json)), 0) AS n FROM sweeps WHERE sweep_id <> ? AND state IN ('running', 'paused', 'cancelling')",
      without,
    )!.n as number;
  }

  /** Newest first. */
  list(limit: number, owner?: string): SweepRow[] {
    return this.#sql.all(
      `${SELECT_SWEEP} WHERE ?2 IS NULL OR submitter = ?2
        ORDER BY created_at DESC, sweep_id DESC LIMIT ?1`,
      limit,
      owner ?? null,
    ).map((row) => this.#sweepFrom(row));
  }

  /** Sweeps for which a daemon has something to do, oldest first. */
  unfinished(): SweepRow[] {
    return this.#sql.all(
      `${SELECT_SWEEP} WHERE state IN ('running', 'paused', 'cancelling') ORDER BY created_at, sweep_id`,
    ).map((row) => this.#sweepFrom(row));
  }

  change(sweepId: string, fields: Partial<Pick<SweepRow, "state" | "specJson">>): SweepRow {
    return this.#write(() => {
      const { state, specJson } = { ...this.get(sweepId)!, ...fields };
      this.#sql.run(
        "UPDATE sweeps SET state = ?, spec_json = ?, updated_at = ? WHERE sweep_id = ?",
        ...[state, specJson, this.#now(), sweepId],
      );
      return this.get(sweepId)!;
    });
  }

  /** With its trials and what was decided about them; their runs stay. */
  delete(sweepId: string): void {
    this.#write(() => this.#sql.run("DELETE FROM sweeps WHERE sweep_id = ?", sweepId));
  }

  /**
   * Within the transaction that inserts its run. @throws if it is not the sweep's next trial: then
   * nothing is written
   */
  enterTrial({ sweepId, trial }: TrialOf, runId: string | null, refusal: string | null): void {
    const { changes } = this.#sql.run(
      "UPDATE sweeps SET next_trial = next_trial + 1, updated_at = ? WHERE sweep_id = ? AND next_trial = ?",
      ...[this.#now(), sweepId, trial],
    );
    if (changes === 0) {
      throw new MosaicError(
        "failed_precondition",
        `trial ${trial} of sweep ${sweepId} is made already`,
      );
    }
    this.#sql.run("INSERT INTO sweep_trials VALUES (?, ?, ?, ?)", sweepId, trial, runId, refusal);
  }

  /** The daemon can make no run of this trial. */
  refuseTrial(of: TrialOf, refusal: string): void {
    this.#write(() => this.enterTrial(of, null, refusal));
  }

  /**
   * Trials whose runs live, of all sweeps. Its cost is that of the live runs, not that of the
   * sweeps.
   */
  live(): (TrialOf & { runId: string; state: RunState })[] {
    return this.#sql.all(
      `SELECT t.sweep_id, t.trial, r.run_id, r.state FROM runs r CROSS JOIN sweep_trials t INDEXED BY sweep_trials_by_run
       WHERE r.state IN (SELECT value FROM json_each(?)) AND t.run_id = r.run_id ORDER BY t.sweep_id, t.trial`,
      JSON.stringify(LIVE_STATES),
    ).map((row) => ({
      sweepId: row.sweep_id as string,
      trial: row.trial as number,
      runId: row.run_id as string,
      state: row.state as RunState,
    }));
  }

  /** How many trials of each sweep live; sweeps without any are left out. */
  liveCounts(): Map<string, number> {
    return new Map(
      this.#sql.all(
        `SELECT t.sweep_id, count(*) AS n FROM runs r CROSS JOIN sweep_trials t INDEXED BY sweep_trials_by_run
         WHERE r.state IN (SELECT value FROM json_each(?)) AND t.run_id = r.run_id GROUP BY t.sweep_id`,
        JSON.stringify(LIVE_STATES),
      ).map((row) => [row.sweep_id as string, row.n as number]),
    );
  }

  trialOf(runId: string): TrialOf | undefined {
    const row = this.#sql.get("SELECT sweep_id, trial FROM sweep_trials WHERE run_id = ?", runId);
    return row === undefined
      ? undefined
      : { sweepId: row.sweep_id as string, trial: row.trial as number };
  }

  /** In order of their numbers. */
  trials(sweepId: string, from: number, limit: number): TrialRow[] {
    return this.#sql.all(
      `${SELECT_TRIALS} WHERE t.sweep_id = ? AND t.trial >= ? ORDER BY t.trial LIMIT ?`,
      ...[sweepId, from, limit],
    ).map((row) => ({
      trial: row.trial as number,
      runId: row.run_id as string | null,
      refusal: row.refusal as string | null,
      state: row.state as RunState | null,
      name: row.name as string | null,
      reason: row.reason as string | null,
      attempt: row.attempt as number | null,
      startedAt: row.started_at as number | null,
      finishedAt: row.finished_at as number | null,
    }));
  }

  /**
   * How many trials there are in each state; `refused` and `deleted` are those without a run,
   * `pruned` those stopped early.
   */
  counts(sweepId: string): Record<string, number> {
    const rows = this.#sql.all(
      `SELECT CASE WHEN t.run_id IS NULL THEN 'refused' WHEN r.run_id IS NULL THEN 'deleted'
         WHEN r.state = 'CANCELLED' AND r.reason = 'pruned' THEN 'pruned' ELSE r.state END AS what, count(*) AS n
       FROM sweep_trials t LEFT JOIN runs r ON r.run_id = t.run_id AND r.deleted_at IS NULL
       WHERE t.sweep_id = ? GROUP BY what ORDER BY what`,
      sweepId,
    );
    return Object.fromEntries(rows.map((row) => [row.what as string, row.n as number]));
  }

  /** Milliseconds that the trials' attempts ran, all together. */
  runMs(sweepId: string): number {
    const row = this.#sql.get(
      `SELECT sum(max(0, coalesce(until, ?) - at)) AS ms FROM (
         SELECT a.event, a.at, min(CASE WHEN a.to_state IN (SELECT value FROM json_each(?)) THEN a.at END)
           OVER (PARTITION BY a.run_id ORDER BY a.seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until
         FROM sweep_trials t JOIN transitions a USING (run_id) WHERE t.sweep_id = ?
       ) WHERE event = 'spawned'`,
      ...[this.#now(), JSON.stringify([...ENDED_STATES, "INIT"]), sweepId],
    );
    return Number(row?.ms ?? 0);
  }

  /** In the order in which they were decided. */
  reports(sweepId: string): SweepReport[] {
    return this.#sql.all("SELECT * FROM sweep_reports WHERE sweep_id = ? ORDER BY seq", sweepId)
      .map((row) => ({
        trial: row.trial as number,
        rung: row.rung as number,
        step: row.step as number,
        value: (row.value ?? NaN) as number,
        mean: (row.mean ?? NaN) as number,
        best: (row.best ?? NaN) as number,
        stops: row.stops === STOPS,
        holds: row.stops === HOLDS,
        reason: row.reason as string,
        attempt: row.attempt as number,
        at: row.at as number,
      }));
  }

  /** Reports of one trial, each with its event. Committed before the trial is stopped. */
  addReports(
    { sweepId, name }: Pick<SweepRow, "sweepId" | "name">,
    reports: readonly SweepReport[],
    runId: string,
  ): void {
    this.#write(() => {
      const { n } = this.#sql.get(
        "SELECT coalesce(max(seq), 0) AS n FROM sweep_reports WHERE sweep_id = ?",
        sweepId,
      ) as { n: number };
      for (
        const [i, { trial, rung, step, value, mean, best, stops, holds, reason, attempt, at }]
          of reports.entries()
      ) {
        // A value that is not finite has no place in the database's numbers: it is the worst there
        // is.
        const finite = [value, mean, best].map((x) => Number.isFinite(x) ? x : null);
        this.#sql.run(
          "INSERT INTO sweep_reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          ...[
            sweepId,
            n + i + 1,
            trial,
            rung,
            Math.trunc(step),
            ...finite,
            stops ? STOPS : holds ? HOLDS : GOES_ON,
            reason,
            attempt,
            Math.trunc(at),
          ],
        );
        this.#addEvent(runId, "rung", {
          sweep: name,
          trial,
          rung,
          step,
          value: finite[0],
          stops,
          holds,
          reason,
        });
      }
    });
  }

  #sweepFrom(row: SqlRow): SweepRow {
    const sweepId = row.sweep_id as string;
    const specOf = () =>
      this.#sql.get("SELECT spec_json FROM sweeps WHERE sweep_id = ?", sweepId)!
        .spec_json as string;
    return {
      sweepId,
      name: row.name as string,
      state: row.state as SweepState,
      get specJson() {
        return specOf();
      },
      submitter: row.submitter as string,
      nextTrial: row.next_trial as number,
      createdAt: row.created_at as number,
      updatedAt: row.updated_at as number,
    };
  }
}

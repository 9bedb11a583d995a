/**
 * Summaries of whole series, kept in their rows and written in the transaction that stores their
 * points. Rows of earlier versions are summarized from the rollups.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import { rewardRank } from "../../records/progress_series.ts";
import type { SeriesSummary } from "../../records/stored.ts";
import type { Twins } from "./twins.ts";
import { decimate } from "./rollup.ts";
import { checkedRow, CRC_COLUMN } from "../tables/row_checksums.ts";
import { BASE_SERIES, type SeriesRows } from "./series_rows.ts";

/** A comparison of a series with another one. */
export interface Comparison {
  twins: Twins;
  /** Its two series; the first was there first. */
  of: readonly [SeriesState, SeriesState];
}

/** Of a series that was found to be none of another source's. */
export const NO_COPY = 0;

/** A series that is being written. */
export class SeriesState {
  points = 0;
  last = 0;
  lastSeq = 0;
  min: number | null = null;
  max: number | null = null;
  sum = 0;
  finite = 0;
  minStep: number | null = null;
  maxStep: number | null = null;
  /** The source of its points in an attempt; "": the journal. */
  label = "";
  attempt = 0;
  /**
   * How many of its points are of attempts before `attempt`; undefined: not read from the stored
   * starts yet.
   */
  earlier: number | undefined;
  changed = false;
  /**
   * The series that has the same points more exactly; NO_COPY: none, and that is final; null: none
   * that is known.
   */
  copyOf: number | null = null;
  /** Comparisons that are not final. */
  comparisons: Comparison[] = [];
  /** Since it was read. */
  wasCompared = false;
  /** How certainly it is the reward of episodes. */
  readonly rewardRank: number;

  constructor(readonly series: number, public name: string) {
    this.rewardRank = rewardRank(name);
  }

  add(value: number, step: number): void {
    this.points++;
    if (value - value !== 0) return;
    this.finite++;
    this.sum += value;
    this.last = value;
    if (this.min === null || value < this.min) {
      this.min = value;
      this.minStep = step;
    }
    if (this.max === null || value > this.max) {
      this.max = value;
      this.maxStep = step;
    }
  }
}

/** Series of earlier versions that are summarized in one transaction. */
const AT_ONCE = 100;
/** Names read in one statement, with the first run that has each. */
const NAMES_AT_ONCE = 64;
/** Bound on returned names. */
const MAX_NAMES = 10_000;
/** The columns that `save` rewrites. */
const SAVED = [
  ...[
    "name",
    "copy_of",
    "points",
    "last",
    "last_seq",
    "label",
    "attempt",
    "min",
    "max",
    "sum",
    "finite",
    "min_step",
    "max_step",
  ],
];
/**
 * Points of a series `s`, without those that further attempts repeated: a worker that reports a
 * value once reports it once per attempt. (Irrelevant for series with more points.)
 */
const POINTS_WITHOUT_REPEATS =
  `CASE WHEN s.points BETWEEN 2 AND 16 THEN s.points - (SELECT count(*) FROM series_starts t
  WHERE t.run_key = s.run_key AND t.series = s.series) ELSE s.points END`;
const COLUMNS =
  "s.name, s.points, s.last, s.min, s.max, s.sum, s.finite, s.min_step, s.max_step, s.label";
/**
 * Whether a row is not listed: a copy, or episodes without lengths, only zeros. (NULL: not
 * summarized yet.)
 */
const UNLISTED = `(ifnull(copy_of, 0) > ${NO_COPY} OR series = ${
  BASE_SERIES.indexOf("episode_length") + 1
} AND ifnull(max, 1) <= 0)`;

export class Summaries {
  readonly #db: DatabaseSync;
  readonly #rows: SeriesRows;
  readonly #load: StatementSync;
  readonly #save: StatementSync;
  readonly #row: ReturnType<typeof checkedRow>;
  readonly #ofRun: StatementSync;
  readonly #one: StatementSync;
  readonly #copies: StatementSync;
  readonly #named: StatementSync;
  readonly #names: StatementSync;
  readonly #nextNames: StatementSync;
  readonly #next: StatementSync;

  constructor(db: DatabaseSync, rows: SeriesRows) {
    this.#db = db;
    this.#rows = rows;
    this.#load = prepareArrays(
      db,
      `SELECT series, name, points, last, last_seq, label, attempt, min, max, sum, finite, min_step, max_step, copy_of
        FROM series WHERE run_key = ?`,
    );
    this.#row = checkedRow(db, "series", ["run_key", "series", ...SAVED]);
    this.#save = db.prepare(
      `INSERT ${this.#row.insert} ON CONFLICT DO UPDATE SET ${
        [...SAVED, CRC_COLUMN].map((name) => `${name} = excluded.${name}`).join(", ")
      }`,
    );
    this.#ofRun = prepareArrays(
      db,
      `SELECT ${COLUMNS} FROM series s WHERE run_key = ?1 AND NOT ${UNLISTED} ORDER BY min(series, 4), name`,
    );
    this.#copies = prepareArrays(
      db,
      `SELECT ${COLUMNS}, m.name FROM series s JOIN series m ON m.run_key = s.run_key AND m.series = s.copy_of
        WHERE s.run_key = ? AND s.copy_of > ${NO_COPY} ORDER BY m.name, s.name`,
    );
    this.#one = prepareArrays(
      db,
      `SELECT ${COLUMNS} FROM series s INDEXED BY series_by_name WHERE s.name = ? AND s.run_key = ?`,
    );
    this.#named = prepareArrays(
      db,
      `SELECT r.run_id, ${COLUMNS} FROM series s JOIN telemetry_runs r USING (run_key) WHERE s.name = ? AND deleting = 0`,
    );
    this.#nextNames = prepareArrays(
      db,
      `WITH RECURSIVE names (name) AS (SELECT min(name) FROM series WHERE name > ?
        UNION ALL SELECT (SELECT min(name) FROM series WHERE name > names.name) FROM names WHERE name IS NOT NULL
        LIMIT ${NAMES_AT_ONCE})
      SELECT n.name, s.run_key, ${POINTS_WITHOUT_REPEATS}, s.series, ${UNLISTED} FROM names n LEFT JOIN series s INDEXED BY series_by_name ON s.name = n.name
          AND s.run_key = (SELECT min(run_key) FROM series f WHERE f.name = n.name AND f.run_key >= ?)
        WHERE n.name IS NOT NULL`,
    );
    this.#next = prepareArrays(
      db,
      `SELECT run_key, ${POINTS_WITHOUT_REPEATS}, series, ${UNLISTED} FROM series s INDEXED BY series_by_name WHERE name = ? AND run_key >= ?
        ORDER BY run_key LIMIT 1`,
    );
    // One index lookup per name, however many runs have it.
    this.#names = prepareArrays(
      db,
      `WITH RECURSIVE names (name) AS (SELECT min(name) FROM series
        UNION ALL SELECT (SELECT min(name) FROM series WHERE name > names.name) FROM names WHERE name IS NOT NULL)
      SELECT name FROM names WHERE name IS NOT NULL LIMIT ${MAX_NAMES}`,
    );
  }

  /** For a run that is to be written. */
  load(runKey: number): SeriesState[] {
    return allRows(this.#load, runKey).map((row) => {
      const [
        series,
        name,
        points,
        last,
        lastSeq,
        label,
        attempt,
        min,
        max,
        sum,
        finite,
        minStep,
        maxStep,
        copyOf,
      ] = row;
      const known = { points, last, lastSeq, label, attempt, copyOf };
      const state = Object.assign(new SeriesState(series as number, name as string), known);
      return finite === null
        ? this.#fromRollups(runKey, state)
        : Object.assign(state, { min, max, sum, finite, minStep, maxStep });
    });
  }

  save(runKey: number, state: SeriesState): void {
    const {
      points,
      last,
      lastSeq,
      label,
      attempt,
      min,
      max,
      sum,
      finite,
      minStep,
      maxStep,
      name,
      series,
      copyOf,
    } = state;
    const saved = [
      name,
      copyOf,
      points,
      last,
      lastSeq,
      label,
      attempt,
      min,
      max,
      sum,
      finite,
      minStep,
      maxStep,
    ];
    this.#save.run(...this.#row.values(runKey, series, ...saved));
  }

  ofRun(runKey: number): SeriesSummary[] {
    return allRows(this.#ofRun, runKey).map((row) => summaryOf(row as SummaryRow));
  }

  /** Series that are less exact copies of others. */
  copies(runKey: number): SeriesSummary[] {
    return allRows(this.#copies, runKey).map((row) => ({
      ...summaryOf(row as unknown as SummaryRow),
      copyOf: row.at(-1) as string,
    }));
  }

  one(runKey: number, name: string): SeriesSummary | undefined {
    const [row] = allRows(this.#one, name, runKey);
    return row === undefined ? undefined : summaryOf(row as SummaryRow);
  }

  named(name: string): (SeriesSummary & { runId: string })[] {
    return allRows(this.#named, name).map(([runId, ...row]) => ({
      runId: runId as string,
      ...summaryOf(row as unknown as SummaryRow),
    }));
  }

  names(): string[] {
    return allRows(this.#names).map((row) => row[0] as string);
  }

  /**
   * Names of series of these runs, and whether each run has at most one point of it, or one per
   * attempt. For each name the index is read at the next of these runs that may have it, so neither
   * other runs nor most of these are read.
   * @param runKeys ascending
   * @returns undefined for a name that none of them has, so that the caller can yield to other work
   */
  *namesOf(runKeys: readonly number[]): Generator<{ name: string; once: boolean } | undefined> {
    if (runKeys.length === 0) return;
    for (let rows, name = ""; (rows = allRows(this.#nextNames, name, runKeys[0]!)).length > 0;) {
      for (const [next, ...first] of rows) {
        name = next as string;
        yield this.#among(runKeys, name, first as FirstRow);
      }
    }
  }

  /** @param row of the first run that has it and may be one of these; nulls: none */
  #among(
    runKeys: readonly number[],
    name: string,
    row: FirstRow | undefined,
  ): { name: string; once: boolean } | undefined {
    let found = false;
    for (let k = 0; row !== undefined && row[0] !== null;) {
      const [runKey, points, series, noLengths] = row;
      while (k < runKeys.length && runKeys[k]! < runKey) k++;
      if (runKeys[k] === runKey) {
        k++;
        if (noLengths === 0) {
          found ||= points > 0;
          if (points > 1 || series <= BASE_SERIES.length) {
            return found ? { name, once: false } : undefined;
          }
        }
      }
      row = k < runKeys.length
        ? allRows(this.#next, name, runKeys[k]!)[0] as FirstRow | undefined
        : undefined;
    }
    return found ? { name, once: true } : undefined;
  }

  /** Summarizes series of earlier versions, a few at a time. Ends when `closed` returns true. */
  async summariseOld(write: (work: () => void) => void, closed: () => boolean): Promise<void> {
    const due = prepareArrays(
      this.#db,
      `SELECT DISTINCT run_key FROM series WHERE finite IS NULL LIMIT ${AT_ONCE}`,
    );
    for (
      let keys: number[];
      !closed() && (keys = allRows(due).map((row) => row[0] as number)).length > 0;
    ) {
      for (const runKey of keys) {
        if (closed()) return;
        write(() => {
          for (const state of this.load(runKey)) this.save(runKey, state);
        });
        await yieldToOthers();
      }
    }
  }

  #fromRollups(runKey: number, state: SeriesState): SeriesState {
    const source = this.#rows.source(runKey, state.series, state.points, state.lastSeq);
    const [whole] = decimate(source, 1, state.points, 1);
    if (whole === undefined || whole.count === 0) return state;
    const { min, max, mean, count, last } = whole;
    return Object.assign(state, { min, max, sum: mean * count, finite: count, last });
  }
}

type FirstRow = [runKey: number, points: number, series: number, noLengths: number] | [
  null,
  null,
  null,
  null,
];
type SummaryRow = [
  name: string,
  points: number,
  last: number,
  min: number | null,
  max: number | null,
  sum: number,
  finite: number | null,
  minStep: number | null,
  maxStep: number | null,
  label: string,
];

function summaryOf(
  [name, points, last, min, max, sum, finite, minStep, maxStep, label]: SummaryRow,
): SeriesSummary {
  return {
    ...{
      name,
      points,
      nonFinite: finite === null ? 0 : points - finite,
      last: finite === 0 ? null : last,
      min,
      max,
    },
    mean: finite ? sum / finite : null,
    ...{ minStep, maxStep, label, copyOf: null },
  };
}

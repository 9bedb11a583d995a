/** Reads rows of SQLite for readers, as the same objects that the rings return. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import {
  EPISODE_SELECT,
  episodeOfRow,
  METRIC_SELECT,
  metricOfRow,
  type Row,
  STEP_SELECT,
  stepOfRow,
  WORKER_EVENT_SELECT,
  workerEventOfRow,
} from "../../gen/records/record_rows.ts";
import {
  NO_SOURCE,
  type Source,
  type StoredEpisode,
  type StoredMetric,
  type StoredStep,
  type StoredWorkerEvent,
} from "../../gen/records/record_types.ts";
import { textColumns } from "../../records/record_fields.ts";

export { NO_SOURCE, type Source };

/** Bytes per answer. */
export const READ_BYTES = 4 * 1024 * 1024;

/** The labels of a source. */
export const SOURCE_SELECT =
  `SELECT agent_id AS agentId, worker_id AS workerId, policy_label AS policyLabel, backend FROM sources
    WHERE run_key = ? AND source = ?`;

export function prepareArrays(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  // The runtime has it, its types do not yet.
  (statement as StatementSync & { setReturnArrays(on: boolean): void }).setReturnArrays(true);
  return statement;
}

export function allRows(statement: StatementSync, ...args: (number | string)[]): Row[] {
  return statement.all(...args) as unknown as Row[];
}

/**
 * How many of the rows after `since` have texts of at most this many bytes together. (octet_length
 * reads no text.)
 */
function fitting(table: string, texts: string[]): string {
  const bytes = texts.map((text) => `ifnull(octet_length(${text}),0)`).join("+");
  return `SELECT count(*) FROM (SELECT sum(${bytes}) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS total
    FROM ${table} WHERE run_key = ? AND seq > ? AND seq <= ?) WHERE total <= ?`;
}

export class RowReader {
  readonly #steps: StatementSync;
  readonly #stepsFitting: StatementSync;
  readonly #episodes: StatementSync;
  readonly #episodesFitting: StatementSync;
  readonly #events: StatementSync;
  readonly #eventsFitting: StatementSync;
  readonly #eventSeqs: StatementSync;
  readonly #metrics: StatementSync;

  constructor(db: DatabaseSync) {
    const range = "WHERE run_key = ? AND seq > ? AND seq <= ? ORDER BY seq";
    this.#steps = prepareArrays(db, `SELECT ${STEP_SELECT} FROM steps ${range}`);
    this.#stepsFitting = prepareArrays(db, fitting("steps", textColumns("steps")));
    this.#episodes = prepareArrays(db, `SELECT ${EPISODE_SELECT} FROM episodes ${range}`);
    this.#episodesFitting = prepareArrays(db, fitting("episodes", textColumns("episodes")));
    this.#events = prepareArrays(db, `SELECT ${WORKER_EVENT_SELECT} FROM worker_events ${range}`);
    this.#eventsFitting = prepareArrays(db, fitting("worker_events", textColumns("events")));
    this.#eventSeqs = prepareArrays(
      db,
      `SELECT seq FROM worker_events WHERE run_key = ? AND seq > ? AND seq <= ? AND kind IN (SELECT value FROM json_each(?))
        ORDER BY seq`,
    );
    this.#metrics = prepareArrays(db, `SELECT ${METRIC_SELECT} FROM metrics ${range}`);
  }

  /**
   * How many of the steps after `since` have texts of at most this many bytes together; at least
   * one.
   */
  stepsThatFit(runKey: number, since: number, limit: number, maxBytes: number): number {
    return this.#fit(this.#stepsFitting, runKey, since, limit, maxBytes);
  }

  /** @param wide whether rows may be large, so that their sizes are read first */
  steps(
    runKey: number,
    since: number,
    limit: number,
    maxBytes: number | undefined,
    sourceOf: (source: number) => Source,
  ): StoredStep[] {
    const to = since + this.#fit(this.#stepsFitting, runKey, since, limit, maxBytes);
    return allRows(this.#steps, runKey, since, to).map((row) => stepOfRow(row, sourceOf));
  }

  episodes(
    runKey: number,
    since: number,
    limit: number,
    maxBytes: number,
    sourceOf: (source: number) => Source,
  ): StoredEpisode[] {
    const to = since + this.#fit(this.#episodesFitting, runKey, since, limit, maxBytes);
    return allRows(this.#episodes, runKey, since, to).map((row) => episodeOfRow(row, sourceOf));
  }

  events(runKey: number, since: number, limit: number, maxBytes: number): StoredWorkerEvent[] {
    const to = since + this.#fit(this.#eventsFitting, runKey, since, limit, maxBytes);
    return allRows(this.#events, runKey, since, to).map(workerEventOfRow);
  }

  eventSeqs(runKey: number, kinds: readonly string[], since: number, to: number): number[] {
    return allRows(this.#eventSeqs, runKey, since, to, JSON.stringify(kinds)).map(([seq]) =>
      seq as number
    );
  }

  metrics(
    runKey: number,
    since: number,
    limit: number,
    nameOf: (series: number) => string,
  ): StoredMetric[] {
    return allRows(this.#metrics, runKey, since, since + limit).map((row) =>
      metricOfRow(row, nameOf)
    );
  }

  #fit(
    statement: StatementSync,
    runKey: number,
    since: number,
    limit: number,
    maxBytes: number | undefined,
  ): number {
    if (maxBytes === undefined) return limit;
    const [[count]] = allRows(statement, runKey, since, since + limit, maxBytes) as [[number]];
    return Math.max(1, count);
  }
}

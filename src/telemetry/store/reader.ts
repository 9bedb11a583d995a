/** Rows of SQLite as readers get them; the same objects that the rings give. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { StoredEpisode, StoredMetric, StoredStep, StoredWorkerEvent } from "../types.ts";

export interface Source {
  agentId: string;
  workerId: string;
  policyLabel: string;
  backend: string;
}
export const NO_SOURCE: Source = { agentId: "", workerId: "", policyLabel: "", backend: "" };

/** A row as an array: several times cheaper than as an object. */
type Row = (string | number | null)[];

export function prepareArrays(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  // In the runtime, not yet in its types.
  (statement as StatementSync & { setReturnArrays(on: boolean): void }).setReturnArrays(true);
  return statement;
}

export function allRows(statement: StatementSync, ...args: (number | string)[]): Row[] {
  return statement.all(...args) as unknown as Row[];
}

const STEP_TEXTS = ["action", "observation", "info", "render_hint", "render_payload", "frame_ref"];

/** How many of the rows after `since` have texts of at most so many bytes together. (octet_length reads no text.) */
function fitting(table: string, texts: string[]): string {
  const bytes = texts.map((text) => `ifnull(octet_length(${text}),0)`).join("+");
  return `SELECT count(*) FROM (SELECT sum(${bytes}) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS total
    FROM ${table} WHERE run_key = ? AND seq > ? AND seq <= ?) WHERE total <= ?`;
}

export class Reader {
  readonly #steps: StatementSync;
  readonly #stepsFitting: StatementSync;
  readonly #episodes: StatementSync;
  readonly #episodesFitting: StatementSync;
  readonly #events: StatementSync;
  readonly #eventsFitting: StatementSync;
  readonly #metrics: StatementSync;

  constructor(db: DatabaseSync) {
    const range = "WHERE run_key = ? AND seq > ? AND seq <= ? ORDER BY seq";
    this.#steps = prepareArrays(
      db,
      `SELECT seq, attempt, episode, step, reward, terminated, truncated, CAST(ts_ns AS TEXT), source, action,
        observation, info, render_hint, render_payload, frame_ref, payload_version, episode_seed FROM steps ${range}`,
    );
    this.#stepsFitting = prepareArrays(db, fitting("steps", STEP_TEXTS));
    this.#episodes = prepareArrays(
      db,
      `SELECT seq, attempt, episode, total_reward, steps, terminated, truncated, CAST(ts_ns AS TEXT), source, metadata
        FROM episodes ${range}`,
    );
    this.#episodesFitting = prepareArrays(db, fitting("episodes", ["metadata"]));
    this.#events = prepareArrays(
      db,
      `SELECT seq, attempt, kind, CAST(ts_ns AS TEXT), data FROM worker_events ${range}`,
    );
    this.#eventsFitting = prepareArrays(db, fitting("worker_events", ["kind", "data"]));
    this.#metrics = prepareArrays(db, `SELECT seq, step, ts_ms, series, value FROM metrics ${range}`);
  }

  /** @param wide whether rows may be large, so that their sizes are asked first */
  steps(
    runKey: number,
    since: number,
    limit: number,
    maxBytes: number | undefined,
    sourceOf: (source: number) => Source,
  ): StoredStep[] {
    const to = since + this.#fit(this.#stepsFitting, runKey, since, limit, maxBytes);
    return allRows(this.#steps, runKey, since, to).map((row) => {
      const { agentId, workerId, policyLabel, backend } = sourceOf(row[8] as number);
      return {
        seq: row[0] as number,
        attempt: row[1] as number,
        episode: row[2] as number,
        step: row[3] as number,
        reward: row[4] === null ? NaN : row[4] as number,
        terminated: row[5] === 1,
        truncated: row[6] === 1,
        tsNs: row[7] as string,
        agentId,
        workerId,
        policyLabel,
        backend,
        actionJson: (row[9] ?? "") as string,
        observationJson: (row[10] ?? "") as string,
        renderHintJson: (row[12] ?? "") as string,
        renderPayloadJson: (row[13] ?? "") as string,
        frameRef: (row[14] ?? "") as string,
        payloadVersion: row[15] as number,
        episodeSeed: row[16] as number,
        infoJson: (row[11] ?? "") as string,
      };
    });
  }

  episodes(
    runKey: number,
    since: number,
    limit: number,
    maxBytes: number,
    sourceOf: (source: number) => Source,
  ): StoredEpisode[] {
    const to = since + this.#fit(this.#episodesFitting, runKey, since, limit, maxBytes);
    return allRows(this.#episodes, runKey, since, to).map((row) => {
      const { agentId, workerId } = sourceOf(row[8] as number);
      return {
        seq: row[0] as number,
        attempt: row[1] as number,
        episode: row[2] as number,
        totalReward: row[3] === null ? NaN : row[3] as number,
        steps: row[4] as number,
        terminated: row[5] === 1,
        truncated: row[6] === 1,
        metadataJson: (row[9] ?? "") as string,
        tsNs: row[7] as string,
        agentId,
        workerId,
      };
    });
  }

  events(runKey: number, since: number, limit: number, maxBytes: number): StoredWorkerEvent[] {
    const to = since + this.#fit(this.#eventsFitting, runKey, since, limit, maxBytes);
    return allRows(this.#events, runKey, since, to).map((row) => ({
      seq: row[0] as number,
      attempt: row[1] as number,
      kind: row[2] as string,
      dataJson: (row[4] ?? "") as string,
      tsNs: row[3] as string,
    }));
  }

  metrics(runKey: number, since: number, limit: number, nameOf: (series: number) => string): StoredMetric[] {
    return allRows(this.#metrics, runKey, since, since + limit).map((row) => ({
      seq: row[0] as number,
      step: row[1] as number,
      tsMs: row[2] as number,
      name: nameOf(row[3] as number),
      value: row[4] as number,
    }));
  }

  #fit(statement: StatementSync, runKey: number, since: number, limit: number, maxBytes: number | undefined): number {
    if (maxBytes === undefined) return limit;
    const [[count]] = allRows(statement, runKey, since, since + limit, maxBytes) as [[number]];
    return Math.max(1, count);
  }
}

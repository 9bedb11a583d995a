// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

import type {
  CleanSteps,
  EpisodeRecord,
  Source,
  StoredEpisode,
  StoredMetric,
  StoredStep,
  StoredWorkerEvent,
  WorkerEventRecord,
} from "./record_types.ts";

/** A row as an array: several times cheaper than as an object. */
export type Row = (string | number | null)[];

/** Values as SQLite gives them back. */
export interface Storable {
  integer(value: unknown): number;
  real(value: unknown): number;
  text(value: unknown): string;
  time(value: unknown, arrivalNs: string): string;
}

/** Columns of steps that are left out of a batch's insert where all rows have the default. */
export const OPTIONAL_STEP_COLUMNS = [
  { key: "episode", column: "episode", real: false },
  { key: "step", column: "step", real: false },
  { key: "actionJson", column: "action", real: false },
  { key: "observationJson", column: "observation", real: false },
  { key: "reward", column: "reward", real: true },
  { key: "terminated", column: "terminated", real: false },
  { key: "truncated", column: "truncated", real: false },
  { key: "renderHintJson", column: "render_hint", real: false },
  { key: "renderPayloadJson", column: "render_payload", real: false },
  { key: "frameRef", column: "frame_ref", real: false },
  { key: "payloadVersion", column: "payload_version", real: false },
  { key: "episodeSeed", column: "episode_seed", real: false },
  { key: "infoJson", column: "info", real: false },
] as const satisfies readonly { key: keyof CleanSteps; column: string; real: boolean }[];

export const STEP_SELECT = "seq, attempt, source, episode, step, action, observation, reward, terminated, truncated, CAST(ts_ns AS TEXT), render_hint, render_payload, frame_ref, payload_version, episode_seed, info";

export function stepOfRow(row: Row, sourceOf: (source: number) => Source): StoredStep {
  const source = sourceOf(row[2] as number);
  return {
    seq: row[0] as number,
    attempt: row[1] as number,
    episode: row[3] as number,
    step: row[4] as number,
    actionJson: (row[5] ?? "") as string,
    observationJson: (row[6] ?? "") as string,
    reward: row[7] === null || row[7] === "NaN" ? NaN : row[7] as number,
    terminated: row[8] === 1,
    truncated: row[9] === 1,
    tsNs: row[10] as string,
    agentId: source.agentId,
    workerId: source.workerId,
    policyLabel: source.policyLabel,
    backend: source.backend,
    renderHintJson: (row[11] ?? "") as string,
    renderPayloadJson: (row[12] ?? "") as string,
    frameRef: (row[13] ?? "") as string,
    payloadVersion: row[14] as number,
    episodeSeed: row[15] as number,
    infoJson: (row[16] ?? "") as string,
  };
}

export const EPISODE_SELECT = "seq, attempt, source, episode, total_reward, steps, terminated, truncated, CAST(ts_ns AS TEXT), metadata";

export function episodeOfRow(row: Row, sourceOf: (source: number) => Source): StoredEpisode {
  const source = sourceOf(row[2] as number);
  return {
    seq: row[0] as number,
    attempt: row[1] as number,
    episode: row[3] as number,
    totalReward: row[4] === null || row[4] === "NaN" ? NaN : row[4] as number,
    steps: row[5] as number,
    terminated: row[6] === 1,
    truncated: row[7] === 1,
    tsNs: row[8] as string,
    agentId: source.agentId,
    workerId: source.workerId,
    metadataJson: (row[9] ?? "") as string,
  };
}

export const WORKER_EVENT_SELECT = "seq, attempt, kind, CAST(ts_ns AS TEXT), data";

export function workerEventOfRow(row: Row): StoredWorkerEvent {
  return {
    seq: row[0] as number,
    attempt: row[1] as number,
    kind: row[2] as string,
    tsNs: row[3] as string,
    dataJson: (row[4] ?? "") as string,
  };
}

export const METRIC_SELECT = "seq, series, value, step, ts_ms";

export function metricOfRow(row: Row, nameOf: (series: number) => string): StoredMetric {
  return {
    seq: row[0] as number,
    name: nameOf(row[1] as number),
    value: row[2] === null || row[2] === "NaN" ? NaN : row[2] as number,
    step: row[3] as number,
    tsMs: row[4] as number,
  };
}

export const EPISODE_COLUMNS: readonly string[] = ["run_key", "seq", "attempt", "source", "episode", "total_reward", "steps", "terminated", "truncated", "ts_ns", "metadata"];

export function storedEpisode(
  as: Storable,
  record: EpisodeRecord,
  seq: number,
  attempt: number,
  arrivalNs: string,
): StoredEpisode {
  return {
    seq,
    attempt,
    episode: as.integer(record.episode),
    totalReward: as.real(record.totalReward),
    steps: as.integer(record.steps),
    terminated: Boolean(record.terminated),
    truncated: Boolean(record.truncated),
    tsNs: as.time(record.tsNs, arrivalNs),
    agentId: as.text(record.agentId),
    workerId: as.text(record.workerId),
    metadataJson: as.text(record.metadataJson),
  };
}

/** The values of EPISODE_COLUMNS. */
export function episodeRow(runKey: number, stored: StoredEpisode, source: number): Row {
  return [
    runKey,
    stored.seq,
    stored.attempt,
    source,
    stored.episode,
    Number.isNaN(stored.totalReward) ? null : stored.totalReward,
    stored.steps,
    stored.terminated ? 1 : 0,
    stored.truncated ? 1 : 0,
    stored.tsNs,
    stored.metadataJson === "" ? null : stored.metadataJson,
  ];
}

/** Whether a count or index could not be stored as it was. */
export function episodeChanged(record: EpisodeRecord, stored: StoredEpisode): boolean {
  return stored.episode !== record.episode || stored.steps !== record.steps;
}

export const WORKER_EVENT_COLUMNS: readonly string[] = ["run_key", "seq", "attempt", "kind", "ts_ns", "data"];

export function storedWorkerEvent(
  as: Storable,
  record: WorkerEventRecord,
  seq: number,
  attempt: number,
  arrivalNs: string,
): StoredWorkerEvent {
  return {
    seq,
    attempt,
    kind: as.text(record.kind),
    tsNs: as.time(record.tsNs, arrivalNs),
    dataJson: as.text(record.dataJson),
  };
}

/** The values of WORKER_EVENT_COLUMNS. */
export function workerEventRow(runKey: number, stored: StoredWorkerEvent): Row {
  return [
    runKey,
    stored.seq,
    stored.attempt,
    stored.kind,
    stored.tsNs,
    stored.dataJson === "" ? null : stored.dataJson,
  ];
}

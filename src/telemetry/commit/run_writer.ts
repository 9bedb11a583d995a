/** Writes what runs deliver, inside a transaction: rows of all kinds, series, cursors, counters. */
import type { DatabaseSync } from "node:sqlite";
import {
  EPISODE_COLUMNS,
  episodeChanged,
  episodeRow,
  storedEpisode,
  storedWorkerEvent,
  WORKER_EVENT_COLUMNS,
  workerEventRow,
} from "../../gen/records/record_rows.ts";
import type { IngestBatch, SourceCursor } from "../../records/ingest_batch.ts";
import type {
  EpisodeRecord,
  StoredEpisode,
  StoredWorkerEvent,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import { MAX_PARAMETERS } from "../../records/parameters.ts";
import { BulkInsert } from "../tables/bulk_insert.ts";
import { OWN_LABEL, type OwnPoint } from "../series/own_points.ts";
import { ParameterRows, PARAMETERS_EVENT } from "../runs/parameter_rows.ts";
import { countNotRead } from "./count_not_read.ts";
import { addViolation, type RunRows, type RunState } from "../runs/run_state.ts";
import type { RunStates } from "./run_states.ts";
import { opened, placed } from "../../records/sealed_steps.ts";
import type { SeriesWriter } from "./series_writer.ts";
import type { SourceCursors } from "../runs/source_cursors.ts";
import type { StepStorage } from "./step_storage.ts";
import {
  type CleanSteps,
  cleanSteps,
  storableInteger,
  storableReal,
  storableText,
  storableTime,
} from "../../records/storable_steps.ts";

/** A batch with a larger average row, or a larger size, marks a run as having large rows. */
const WIDE_ROW = 1024;
const WIDE_BATCH = 1024 * 1024;

const STORABLE = {
  integer: storableInteger,
  real: storableReal,
  text: storableText,
  time: storableTime,
};
/** Event kinds whose numbers are no metrics. */
const NO_CURVES = new Set([
  ...["text", "histogram", "artifact", "journal_lost", "records_refused"],
  ...["source_observed", "source_problem", "not_read", "trial", "progress"],
]);
/** Event kinds about files. */
const OF_THE_SOURCE = new Set([
  "source_observed",
  "source_problem",
  "not_read",
  "artifact",
  "checkpoint_saved",
]);
const NO_REWARD = "store: episode without a reward";
const TOO_MANY_PARAMETERS = `parameters: more than ${MAX_PARAMETERS} of one source are not stored`;
const CLAMPED = "store: value could not be stored as it was and was replaced";

/** What is stored for one run. */
export interface Delivery {
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
  /** Another source, whose cursor is then stored. */
  source?: SourceCursor;
  label: string;
  /** The run to which the records belong, if it is another; written in the same transaction. */
  within?: string | undefined;
}

/** Written steps: their number, their bytes, and their columns if those were open. */
interface StoredSteps {
  n: number;
  bytes: number;
  columns: CleanSteps | undefined;
}

/** A delivery whose rows are written but not committed yet. */
export interface Written {
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

/** The stored position differs from memory: another program wrote to the file. */
export class StalePosition extends Error {}

export interface RunWriterParts {
  rows: RunRows;
  states: RunStates;
  steps: StepStorage;
  seriesWriter: SeriesWriter;
  cursors: SourceCursors;
  parameters: ParameterRows;
  now: () => number;
}

export class RunWriter {
  readonly #parts: RunWriterParts;
  readonly #episodeWriter: BulkInsert;
  readonly #eventWriter: BulkInsert;
  /** In the current transaction. */
  #written: Written[] = [];

  constructor(db: DatabaseSync, parts: RunWriterParts) {
    this.#parts = parts;
    this.#episodeWriter = new BulkInsert(db, "episodes", EPISODE_COLUMNS);
    this.#eventWriter = new BulkInsert(db, "worker_events", WORKER_EVENT_COLUMNS);
  }

  /** Call it before the commit. @returns what the transaction has written */
  finish(): Written[] {
    const written = this.#written;
    for (const state of new Set(written.map((one) => one.state))) this.#finishRun(state);
    this.#written = [];
    return written;
  }

  /** After a failure: drops the state of the transaction's runs. */
  abandon(written: readonly Written[]): void {
    this.#episodeWriter.clear();
    this.#eventWriter.clear();
    this.#parts.seriesWriter.reset();
    for (const { runId } of [...written, ...this.#written]) this.#parts.states.drop(runId);
    this.#written = [];
  }

  /** Stores points without a record, at the run's newest step. */
  sample(
    runId: string,
    attempt: number,
    state: RunState,
    points: Parameters<SeriesWriter["points"]>[1],
  ): void {
    this.#ofNoRecord(runId, attempt, state);
    this.#parts.seriesWriter.from(attempt, OWN_LABEL);
    this.#parts.seriesWriter.points(state, points, `${Math.floor(this.#parts.now())}000000`);
  }

  /** The same, at their own steps. */
  sampledBefore(runId: string, state: RunState, points: readonly OwnPoint[]): void {
    this.#ofNoRecord(runId, state.attempt, state);
    for (const point of points) {
      this.#parts.seriesWriter.from(point.attempt, OWN_LABEL);
      this.#parts.seriesWriter.placed(state, point);
    }
  }

  #ofNoRecord(runId: string, attempt: number, state: RunState): void {
    const { heads: { steps, events } } = state;
    this.#parts.states.live(state).touchedAt = this.#parts.now();
    this.#written.push({
      ...{
        runId,
        attempt,
        state,
        firstStep: steps + 1,
        steps: { n: 0, bytes: 0, columns: undefined },
      },
      ...{ episodes: [], events: [], lastEvent: events },
    });
  }

  /** Writes a delivery's rows; `finish` writes rows that exist once per run, before the commit. */
  write(delivery: Delivery): Written {
    if (delivery.within !== undefined) return this.#writeWithin(delivery, delivery.within);
    const { runId, attempt } = delivery;
    const now = this.#parts.now();
    const arrivalNs = `${Math.max(0, Math.floor(now))}000000`;
    const state = this.#parts.states.getOrCreate(runId);
    const firstStep = state.heads.steps + 1;
    const written: Written = {
      ...{
        runId,
        attempt,
        state,
        firstStep,
        lastEvent: state.heads.events + delivery.events.length,
      },
      ...{ steps: { n: 0, bytes: 0, columns: undefined }, episodes: [], events: [] },
    };
    this.#written.push(written);
    const live = this.#parts.states.live(state);
    live.touchedAt = now;
    if (delivery.journal !== undefined) {
      const { from, to } = delivery.journal;
      if (!this.#parts.rows.advance(state.runKey, attempt, from, to)) throw new StalePosition();
      state.positions.set(attempt, to);
    }
    if (delivery.source !== undefined) {
      this.#parts.cursors.put(state.runKey, attempt, delivery.source);
    }
    this.#parts.seriesWriter.from(attempt, delivery.label);
    state.attempt = Math.max(state.attempt, attempt);
    state.otherLines += storableInteger(delivery.otherLines);
    state.malformedLines += storableInteger(delivery.malformedLines);
    for (const kind in delivery.violations) {
      addViolation(state, storableText(kind), storableInteger(delivery.violations[kind]));
    }

    if (delivery.steps.n > 0) {
      written.steps = this.#storeSteps(state, attempt, delivery.steps, arrivalNs);
    }
    written.episodes = delivery.episodes.map((record) =>
      this.#storeEpisode(state, attempt, record, arrivalNs)
    );
    written.events = delivery.events.map((record) =>
      this.#storeEvent(state, attempt, record, arrivalNs)
    );
    if (written.episodes.length > 0) state.meanReward100 = meanOfFinite(live.recentRewards);
    if (written.steps.n + written.episodes.length + written.events.length > 0) {
      state.lastRecordAt = now;
    }
    return written;
  }

  /** The records go to the run within, what is said about the file and about files stays. */
  #writeWithin({ within: _, ...delivery }: Delivery, runId: string): Written {
    const stays = ({ kind }: WorkerEventRecord) => OF_THE_SOURCE.has(kind);
    const { steps, episodes, events } = delivery;
    const records = { steps, episodes, events: events.filter((event) => !stays(event)) };
    const none = { otherLines: 0, malformedLines: 0, violations: {}, journal: undefined };
    this.write({ ...none, ...records, runId, attempt: 1, label: delivery.label });
    return this.write({ ...delivery, steps: { n: 0 }, episodes: [], events: events.filter(stays) });
  }

  #storeSteps(
    state: RunState,
    attempt: number,
    steps: IngestBatch["steps"],
    arrivalNs: string,
  ): StoredSteps {
    const first = state.heads.steps + 1;
    if ("block" in steps && this.#parts.steps.sealRows(state, first)) {
      const { n, block, labels, clamped, curve, infoJson } = steps;
      const { agentId, workerId, policyLabel, backend } = labels;
      const source = this.#parts.rows.sourceKey(state, agentId, workerId, policyLabel, backend);
      const whole = placed(steps, { first, attempt, source, arrivalNs });
      this.#parts.steps.put(state, whole);
      this.#parts.seriesWriter.steps(state, first, {
        ...curve,
        tsNs: (i) => curve.tsNs(i) || arrivalNs,
      }, infoJson);
      this.#counted(state, n, block.raw, clamped);
      return { n, bytes: whole.hot.length + whole.body.length, columns: undefined };
    }
    const columns = "block" in steps ? opened(steps, arrivalNs) : cleanSteps(steps, arrivalNs);
    const { n, reward = 0, tsNs, infoJson, textLength, clamped } = columns;
    if (n > 0) {
      this.#parts.steps.add(state, first, attempt, columns, this.#sources(state, columns));
      this.#parts.seriesWriter.steps(state, first, { n, reward, tsNs: (i) => tsNs[i]! }, infoJson);
    }
    this.#counted(state, n, textLength, clamped);
    return { n, bytes: textLength + 60 * n, columns };
  }

  #counted(state: RunState, n: number, textLength: number, clamped: number): void {
    state.heads.steps += n;
    addViolation(state, CLAMPED, clamped);
    if (textLength > WIDE_BATCH || textLength / n > WIDE_ROW) state.wide = true;
  }

  /** Writes a run's single rows and its block. */
  #finishRun(state: RunState): void {
    this.#parts.steps.finish(state);
    this.#episodeWriter.flush();
    this.#eventWriter.flush();
    this.#parts.seriesWriter.finish(state);
    this.#parts.rows.save(state);
  }

  #storeEpisode(
    state: RunState,
    attempt: number,
    record: EpisodeRecord,
    arrivalNs: string,
  ): StoredEpisode {
    const stored = storedEpisode(STORABLE, record, ++state.heads.episodes, attempt, arrivalNs);
    if (episodeChanged(record, stored)) addViolation(state, CLAMPED, 1);
    if (Number.isNaN(stored.totalReward)) addViolation(state, NO_REWARD, 1);
    const live = state.live!;
    const source = this.#parts.rows.sourceKey(state, stored.agentId, stored.workerId, "", "");
    this.#episodeWriter.add(...episodeRow(state.runKey, stored, source));
    live.recentRewards.push(stored.totalReward);
    if (live.recentRewards.length > 100) live.recentRewards.shift();
    this.#parts.seriesWriter.episode(state, stored.totalReward, stored.steps, stored.tsNs);
    this.#parts.seriesWriter.record(state, stored.metadataJson, state.heads.steps, stored.tsNs);
    return stored;
  }

  #storeEvent(
    state: RunState,
    attempt: number,
    record: WorkerEventRecord,
    arrivalNs: string,
  ): StoredWorkerEvent {
    const stored = storedWorkerEvent(STORABLE, record, ++state.heads.events, attempt, arrivalNs);
    countNotRead(state, stored);
    this.#eventWriter.add(...workerEventRow(state.runKey, stored));
    // The numbers of these are no metrics.
    if (stored.kind === PARAMETERS_EVENT) {
      const leftOut = this.#parts.parameters.store(
        state.runKey,
        attempt,
        stored.seq,
        stored.dataJson,
      );
      addViolation(state, TOO_MANY_PARAMETERS, leftOut);
    } else if (!NO_CURVES.has(stored.kind)) {
      this.#parts.seriesWriter.record(state, stored.dataJson, state.heads.steps, stored.tsNs);
    }
    return stored;
  }

  /** One source key per step, or one for all. */
  #sources(state: RunState, steps: ReturnType<typeof cleanSteps>): number[] | number {
    const { agentId, workerId, policyLabel, backend } = steps;
    const at = (column: string[] | string, i: number) =>
      typeof column === "string" ? column : column[i]!;
    const key = (i: number) =>
      this.#parts.rows.sourceKey(
        state,
        at(agentId, i),
        at(workerId, i),
        at(policyLabel, i),
        at(backend, i),
      );
    if ([agentId, workerId, policyLabel, backend].every((column) => typeof column === "string")) {
      return key(0);
    }
    return Array.from({ length: steps.n }, (_, i) => key(i));
  }
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

/**
 * The runs that the store keeps in memory: counters of runs that were read, rings of runs being
 * written; both bounded.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { STANDARD_BOUNDS } from "../../base/load_limits.ts";
import type { StoredEpisode, StoredWorkerEvent } from "../../gen/records/record_types.ts";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import { RowRing, StepRing } from "../runs/ring.ts";
import type { LiveState, RunRows, RunState } from "../runs/run_state.ts";
import type { SeriesWriter } from "./series_writer.ts";

export interface RingLimits {
  /** Steps kept in memory per run. */
  ringSize?: number;
  /** Memory of all rings; a single run's take at most a sixteenth of it. */
  ringBytes?: number;
  /** Episodes kept in memory per run. */
  episodeRing?: number;
}

const EVENT_RING = 256;
/** After so long without a write, a run's rings are dropped. */
const IDLE_MS = 60_000;
const SWEEP_MS = 5_000;
/** Runs whose counters are in memory. */
const MAX_STATES = 20_000;
/** Approximate memory of a metric: its name, its summary, its end. */
const METRIC_BYTES = 1000;

export class RunStates {
  readonly #rows: RunRows;
  readonly #seriesWriter: SeriesWriter;
  readonly #limits: RingLimits;
  readonly #mostBytes: number;
  readonly #recentRewards: StatementSync;
  readonly #states = new Map<string, RunState>();
  #ringBytes = 0;
  #sweptAt = 0;

  constructor(db: DatabaseSync, rows: RunRows, seriesWriter: SeriesWriter, limits: RingLimits) {
    this.#rows = rows;
    this.#seriesWriter = seriesWriter;
    this.#limits = limits;
    this.#mostBytes = limits.ringBytes ?? STANDARD_BOUNDS.ringBytes;
    this.#recentRewards = prepareArrays(
      db,
      "SELECT total_reward FROM episodes WHERE run_key = ? ORDER BY seq DESC LIMIT 100",
    );
  }

  /** undefined for a run without telemetry. */
  get(runId: string): RunState | undefined {
    const known = this.#states.get(runId);
    if (known !== undefined) return known;
    const loaded = this.#rows.load(runId);
    return loaded === undefined ? undefined : this.#add(runId, loaded);
  }

  /** Called inside a transaction. */
  getOrCreate(runId: string): RunState {
    return this.get(runId) ?? this.#add(runId, this.#rows.create(runId));
  }

  #add(runId: string, state: RunState): RunState {
    if (this.#states.size >= MAX_STATES) {
      for (const [id, { live }] of this.#states) if (live === undefined) this.#states.delete(id);
    }
    this.#states.set(runId, state);
    return state;
  }

  /** The memory of a run that is being written. */
  live(state: RunState): LiveState {
    if (state.live !== undefined) return state.live;
    const rewards = allRows(this.#recentRewards, state.runKey).map((row) =>
      row[0] === null ? NaN : row[0] as number
    );
    const { ringSize = STANDARD_BOUNDS.ringSteps, episodeRing = 1024 } = this.#limits;
    const ringBytes = this.#mostBytes / 8;
    state.live = {
      ...this.#rows.sources(state.runKey),
      ...this.#seriesWriter.load(state),
      counted: 0,
      unsealed: [],
      recentRewards: rewards.reverse(),
      steps: new StepRing(ringSize, ringBytes),
      episodes: new RowRing<StoredEpisode>(
        episodeRing,
        ringBytes / 4,
        (row) => row.metadataJson.length,
      ),
      events: new RowRing<StoredWorkerEvent>(
        EVENT_RING,
        ringBytes / 4,
        (row) => row.dataJson.length,
      ),
      touchedAt: 0,
    };
    return state.live;
  }

  /** Applies a change to a run's rings, and keeps their memory counted. */
  changeRings(live: LiveState, change: () => void): void {
    const before = ringBytesOf(live);
    change();
    live.counted = live.metrics.size;
    this.#ringBytes += ringBytesOf(live) - before;
  }

  /** The run's state is read again when it is next needed. */
  drop(runId: string): void {
    const live = this.#states.get(runId)?.live;
    if (live !== undefined) this.#ringBytes -= ringBytesOf(live);
    this.#states.delete(runId);
  }

  /**
   * Drops the rings of idle runs; beyond the bound for all, also those of the least recently
   * written.
   */
  sweep(now: number): void {
    if (Math.abs(now - this.#sweptAt) < SWEEP_MS && this.#ringBytes <= this.#mostBytes) return;
    this.#sweptAt = now;
    const live = [...this.#states.values()].filter((state) => state.live !== undefined);
    live.sort((a, b) => a.live!.touchedAt - b.live!.touchedAt);
    for (const state of live) {
      const idle = now - state.live!.touchedAt > IDLE_MS;
      if (!idle && this.#ringBytes <= this.#mostBytes) break;
      this.#ringBytes -= ringBytesOf(state.live!);
      state.live = undefined;
    }
  }

  known(): IterableIterator<[runId: string, state: RunState]> {
    return this.#states.entries();
  }

  rings(): { runs: number; bytes: number } {
    let runs = 0;
    for (const { live } of this.#states.values()) if (live !== undefined) runs++;
    return { runs, bytes: this.#ringBytes };
  }

  clear(): void {
    this.#states.clear();
  }
}

export function isSilent({ live }: RunState, now: number): boolean {
  return live === undefined || now - live.touchedAt > IDLE_MS;
}

function ringBytesOf(live: LiveState): number {
  return live.steps.bytes + live.episodes.bytes + live.events.bytes + live.counted * METRIC_BYTES;
}

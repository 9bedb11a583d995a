/** A telemetry log in memory: the contract of src/telemetry/types.ts without a database. */
import { MosaicError } from "../../src/base/errors.ts";
import { EMPTY_STEP } from "../../src/gen/records/record_types.ts";
import type { EpisodeRecord, IngestBatch, StepColumns, StepRecord } from "../../src/telemetry/batch.ts";
import type {
  IngestResult,
  RunTelemetry,
  SeriesBucketRow,
  StoredOf,
  TelemetryKind,
  TelemetryLog,
} from "../../src/telemetry/types.ts";

interface RunLog {
  rows: { [K in TelemetryKind]: StoredOf[K][] };
  position: number;
  waiters: Set<() => void>;
}

export const A_STEP: StepRecord = {
  ...EMPTY_STEP,
  ...{ reward: 1, tsNs: "1700000000123456789", agentId: "agent_1", actionJson: "1", observationJson: "[0.5]" },
};

function rowsOf(columns: StepColumns): StepRecord[] {
  return Array.from({ length: columns.n }, (_, i) => {
    const at = <T>(column: T[] | T | undefined, otherwise: T): T =>
      column === undefined ? otherwise : Array.isArray(column) ? column[i]! : column;
    return {
      ...A_STEP,
      episode: at(columns.episode, 0),
      step: at(columns.step, 0),
      reward: Number(at(columns.reward, 0)),
      observationJson: at(columns.observationJson, ""),
      tsNs: at(columns.tsNs, "1"),
    };
  });
}

export class MemoryTelemetry implements TelemetryLog {
  readonly #runs = new Map<string, RunLog>();
  /** Set to make every write fail as a full disk does. */
  full = false;
  /** Seqs up to this are gone. */
  retainedAfter = 0;
  /** How many waits are open. */
  waiting = 0;
  rowsRead = 0;

  #run(runId: string): RunLog {
    let run = this.#runs.get(runId);
    if (run === undefined) {
      run = { rows: { steps: [], episodes: [], events: [], metrics: [] }, position: 0, waiters: new Set() };
      this.#runs.set(runId, run);
    }
    return run;
  }

  #writable(): void {
    if (this.full) throw new MosaicError("unavailable", "cannot write telemetry.sqlite: the disk is full");
  }

  #woken(run: RunLog): void {
    for (const wake of [...run.waiters]) wake();
  }

  ingest(runId: string, attempt: number, batch: IngestBatch): IngestResult {
    this.#writable();
    const run = this.#run(runId);
    if (batch.to <= run.position) return { type: "duplicate", position: run.position };
    if (batch.from !== run.position) return { type: "gap", position: run.position };
    run.position = batch.to;
    const steps = rowsOf(batch.steps);
    this.append(runId, attempt, steps, batch.episodes);
    return {
      type: "stored",
      position: batch.to,
      steps: steps.length,
      episodes: batch.episodes.length,
      events: [],
      lastEvent: 0,
    };
  }

  // deno-lint-ignore require-await
  async deliver(runId: string, attempt: number, batch: IngestBatch): Promise<IngestResult> {
    return this.ingest(runId, attempt, batch);
  }

  commitWaiting(): void {}

  append(runId: string, attempt: number, steps: StepRecord[], episodes: EpisodeRecord[]): void {
    this.#writable();
    const run = this.#run(runId);
    for (const step of steps) run.rows.steps.push({ ...step, attempt, seq: run.rows.steps.length + 1 });
    for (const episode of episodes) {
      const totalReward = Number(episode.totalReward);
      run.rows.episodes.push({ ...episode, totalReward, attempt, seq: run.rows.episodes.length + 1 });
    }
    this.#woken(run);
  }

  read<K extends TelemetryKind>(runId: string, kind: K, since: number, limit: number): StoredOf[K][] {
    if (since < this.retainedAfter) {
      throw new MosaicError("out_of_range", `the first seq available is ${this.retainedAfter + 1}`);
    }
    const rows = this.#run(runId).rows[kind].slice(since, since + limit) as StoredOf[K][];
    this.rowsRead += rows.length;
    return rows;
  }

  head(runId: string, kind: TelemetryKind): number {
    return this.#run(runId).rows[kind].length;
  }

  waitBeyond(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void> {
    const run = this.#run(runId);
    return new Promise((resolve) => {
      const look = () => {
        if (!signal.aborted && run.rows[kind].length <= since) return;
        run.waiters.delete(look);
        signal.removeEventListener("abort", look);
        this.waiting--;
        resolve();
      };
      this.waiting++;
      run.waiters.add(look);
      signal.addEventListener("abort", look);
      look();
    });
  }

  summary(runId: string): RunTelemetry {
    const { rows, position } = this.#run(runId);
    return {
      steps: rows.steps.length,
      episodes: rows.episodes.length,
      events: rows.events.length,
      metrics: rows.metrics.length,
      otherLines: 0,
      malformedLines: 0,
      violations: { "step: reward": 2 },
      attempt: 1,
      journalPosition: position,
      meanReward100: rows.episodes.length === 0 ? null : 9.5,
      lastRecordAt: null,
    };
  }

  listSeries(runId: string): { name: string; points: number; last: number | null }[] {
    return [{ name: "reward", points: this.head(runId, "steps"), last: 1 }, { name: "loss", points: 0, last: null }];
  }

  series(runId: string, name: string, fromX: number, toX: number, buckets: number): SeriesBucketRow[] {
    const lastX = Math.min(this.head(runId, "steps"), toX);
    return [{
      firstX: fromX,
      lastX,
      min: 0,
      max: 1,
      mean: 0.5,
      last: 1,
      count: buckets,
      atMs: name.length,
      step: null,
    }];
  }

  delete(runId: string): Promise<number> {
    this.#runs.delete(runId);
    return Promise.resolve(0);
  }

  fileBytes(): number {
    return 4096;
  }

  bytesOfRuns(): Promise<Map<string, number>> {
    return Promise.resolve(new Map());
  }

  storedSinceStart() {
    return { steps: 0, episodes: 0, events: 0 };
  }
  rings() {
    return { runs: 0, bytes: 0 };
  }
  writable(): boolean {
    return !this.full;
  }

  close(): void {}
}

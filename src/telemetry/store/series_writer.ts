/** Rolls series up while a batch is stored: closed buckets and points of metrics, in the batch's transaction. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { BulkInsert } from "./bulk_insert.ts";
import type { CleanSteps } from "./storable_steps.ts";
import { msOf, pointsOf } from "./points.ts";
import { allRows, prepareArrays } from "./reader.ts";
import { type BucketSink, openParts, SeriesHead } from "./rollup.ts";
import { addViolation, type LiveState, type MetricState, type RunState } from "./run_state.ts";
import { FIRST_METRIC_SERIES, SeriesRows } from "./series_rows.ts";

/** Metrics a run may have; points of further names are counted, not stored. */
export const MAX_METRICS = 256;
export const TOO_MANY_METRICS = `metrics: points of more than ${MAX_METRICS} names are not stored`;

export class SeriesWriter {
  readonly #rows: SeriesRows;
  readonly #buckets: BulkInsert;
  readonly #points: BulkInsert;
  readonly #load: StatementSync;
  readonly #insert: StatementSync;
  readonly #save: StatementSync;

  constructor(db: DatabaseSync, rows: SeriesRows) {
    this.#rows = rows;
    this.#buckets = new BulkInsert(db, "series_buckets", [
      ...["run_key", "series", "level", "bucket", "min", "max", "sum", "count", "last", "ts_ms", "last_seq"],
    ]);
    this.#points = new BulkInsert(db, "metrics", ["run_key", "seq", "series", "back", "step", "ts_ms", "value"]);
    this.#load = prepareArrays(db, "SELECT series, name, points, last, last_seq FROM series WHERE run_key = ?");
    this.#insert = db.prepare("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?)");
    this.#save = db.prepare("UPDATE series SET points = ?, last = ?, last_seq = ? WHERE run_key = ? AND series = ?");
  }

  /** Where the run's series end, from its rows. */
  load(state: RunState): Pick<LiveState, "base" | "metrics"> {
    const { runKey, heads } = state;
    const head = (series: number, points: number, lastSeq: number) =>
      new SeriesHead(points, openParts(this.#rows.source(runKey, series, points, lastSeq), points));
    const metrics = new Map<string, MetricState>();
    for (const row of allRows(this.#load, runKey)) {
      const [series, name, points, last, lastSeq] = row as [number, string, number, number, number];
      metrics.set(name, { series, head: head(series, points, lastSeq), last, lastSeq, changed: false });
    }
    return { base: [head(1, heads.steps, 0), head(2, heads.episodes, 0), head(3, heads.episodes, 0)], metrics };
  }

  /** @param first seq of the batch's first step */
  steps(state: RunState, first: number, steps: CleanSteps): void {
    const reward = state.live!.base[0]!;
    const sink = this.#sink(state.runKey, 1, 0);
    const atMs = (i: number) => msOf(steps.tsNs[i]!);
    for (let i = 0; i < steps.n; i++) reward.add(steps.reward === undefined ? 0 : steps.reward[i]!, atMs, i, sink);
    if (steps.infoJson === undefined) return;
    for (let i = 0; i < steps.n; i++) {
      const info = steps.infoJson[i]!;
      if (info.length > 4) this.record(state, info, first + i, steps.tsNs[i]!);
    }
  }

  episode(state: RunState, totalReward: number, length: number, tsNs: string): void {
    const atMs = () => msOf(tsNs);
    state.live!.base[1]!.add(totalReward, atMs, 0, this.#sink(state.runKey, 2, 0));
    state.live!.base[2]!.add(length, atMs, 0, this.#sink(state.runKey, 3, 0));
  }

  /** The numeric fields of a record's JSON as points. @param step of the point where the record names none itself */
  record(state: RunState, json: string, step: number, tsNs: string): void {
    const { points, step: named } = pointsOf(json);
    for (const [name, value] of points) this.#point(state, name, value, named ?? step, msOf(tsNs));
  }

  /** Writes what was collected; before the commit. */
  finish(state: RunState): void {
    this.#points.flush();
    this.#buckets.flush();
    for (const metric of state.live!.metrics.values()) {
      if (!metric.changed) continue;
      metric.changed = false;
      this.#save.run(metric.head.points, metric.last, metric.lastSeq, state.runKey, metric.series);
    }
  }

  /** After a failed transaction. */
  reset(): void {
    this.#points.clear();
    this.#buckets.clear();
  }

  #point(state: RunState, rawName: string, value: number, step: number, atMs: number): void {
    const live = state.live!;
    const name = rawName.isWellFormed() && !rawName.includes("\0")
      ? rawName
      : rawName.toWellFormed().replaceAll("\0", "");
    let metric = live.metrics.get(name);
    if (metric === undefined) {
      if (live.metrics.size >= MAX_METRICS) return addViolation(state, TOO_MANY_METRICS, 1);
      const series = FIRST_METRIC_SERIES + live.metrics.size;
      metric = { series, head: new SeriesHead(0, []), last: 0, lastSeq: 0, changed: true };
      live.metrics.set(name, metric);
      this.#insert.run(state.runKey, series, name, 0, 0, 0);
    }
    const seq = ++state.heads.metrics;
    const back = metric.lastSeq === 0 ? 0 : seq - metric.lastSeq;
    this.#points.add(state.runKey, seq, metric.series, back, step, atMs, value);
    metric.last = value;
    metric.lastSeq = seq;
    metric.changed = true;
    metric.head.add(value, () => atMs, 0, this.#sink(state.runKey, metric.series, seq));
  }

  #sink(runKey: number, series: number, lastSeq: number): BucketSink {
    return (level, bucket, { min, max, sum, count, lastValue }, atMs) =>
      this.#buckets.add(runKey, series, level, bucket, min, max, sum, count, lastValue, atMs, lastSeq);
  }
}

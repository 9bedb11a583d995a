/**
 * Rolls series up while a batch is stored: writes closed buckets and points of metrics in the
 * batch's transaction.
 */
import type { DatabaseSync } from "node:sqlite";
import { BulkInsert } from "../tables/bulk_insert.ts";
import type { Curve } from "../../records/step_block.ts";
import {
  MAX_POINTS_PER_EVENT,
  MAX_POINTS_PER_RECORD,
  msOf,
  pointsOf,
} from "../../records/points.ts";
import { type BucketSink, openParts, SeriesHead } from "../series/rollup.ts";
import { addViolation, type LiveSeries, type LiveState, type RunState } from "../runs/run_state.ts";
import { rewardRank } from "../../records/progress_series.ts";
import { OWN_LABEL, type OwnPoint } from "../series/own_points.ts";
import type { Rewinds } from "../series/rewinds.ts";
import { BASE_SERIES, FIRST_METRIC_SERIES, SeriesRows } from "../series/series_rows.ts";
import { isOneOfSeveral, nameBeside } from "../series/source_names.ts";
import { type SameName, Twins } from "../series/twins.ts";
import { type Comparison, NO_COPY, SeriesState, type Summaries } from "../series/summaries.ts";

/** A worker's metrics per run; points of further names are counted, not stored. */
export const MAX_METRICS = 10_000;
const TOO_MANY_METRICS = `metrics: points of more than ${MAX_METRICS} names are not stored`;
const TOO_MANY_POINTS = "metrics: points beyond the bound of one record are not stored";
/** Points at either end of a series that are compared with those of another source. */
const COMPARED = 64;
/** Series with the same last part of their names that are compared with a new one. */
const MOST_OF_A_NAME = 4;

/** Of two metrics that are rewards, the more certain one counts. */
function reportedReward(
  state: RunState,
  { name, rewardRank: rank }: SeriesState,
  value: number,
): void {
  const { reportedReward: known } = state;
  if (!Number.isFinite(value)) return;
  if (known === null || known.name === name || rank < rewardRank(known.name)) {
    state.reportedReward = { name, value };
  }
}

/** `eval_loss` and `eval/loss` are one name for two sources. */
function spelled(name: string): string {
  return name.replaceAll("/", "_");
}

/** Whether `name` is the other one behind some directories. */
function endsWithName(name: string, other: string): boolean {
  return name === other || name.endsWith(`/${other}`);
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

function addByLastPart(byLastPart: Map<string, SeriesState[]>, summary: SeriesState): void {
  if (summary.label === OWN_LABEL || summary.name.includes("@")) return;
  for (const key of keysOf(summary.name)) {
    const alike = byLastPart.get(key);
    if (alike === undefined) byLastPart.set(key, [summary]);
    else if (!alike.includes(summary) && alike.length < MOST_OF_A_NAME) alike.push(summary);
  }
}

/** Under which a name is found: its last part, and how it is spelled. */
function keysOf(name: string): string[] {
  return /[/_]/.test(name) ? [lastPart(name), `/${spelled(name)}`] : [name];
}

export class SeriesWriter {
  readonly #rows: SeriesRows;
  readonly #summaries: Summaries;
  readonly #rewinds: Rewinds;
  readonly #buckets: BulkInsert;
  readonly #points: BulkInsert;
  /** Comparisons that the last point has made necessary. */
  readonly #due: (() => void)[] = [];
  #attempt = 0;
  #label = "";

  constructor(db: DatabaseSync, rows: SeriesRows, summaries: Summaries, rewinds: Rewinds) {
    this.#rows = rows;
    this.#summaries = summaries;
    this.#rewinds = rewinds;
    this.#buckets = new BulkInsert(db, "series_buckets", [
      ...[
        "run_key",
        "series",
        "level",
        "bucket",
        "min",
        "max",
        "sum",
        "count",
        "last",
        "ts_ms",
        "last_seq",
        "step",
      ],
    ]);
    this.#points = new BulkInsert(db, "metrics", [
      "run_key",
      "seq",
      "series",
      "back",
      "step",
      "ts_ms",
      "value",
    ]);
  }

  /** The run's series, from their rows; the end of a metric is read with its next point. */
  load(
    state: RunState,
  ): Pick<LiveState, "base" | "metrics" | "byLastPart" | "ownMetrics" | "changed" | "stepShift"> {
    const base = BASE_SERIES.map((name, i): LiveSeries => ({
      summary: new SeriesState(i + 1, name),
      head: undefined,
    }));
    const metrics = new Map<string, LiveSeries>();
    for (const summary of this.#summaries.load(state.runKey)) {
      if (summary.series < FIRST_METRIC_SERIES) base[summary.series - 1]!.summary = summary;
      else metrics.set(summary.name, { summary, head: undefined });
    }
    // Before a batch's steps are stored, because then their rows may move into blocks.
    for (const series of base) series.head = this.#headOf(state.runKey, series.summary);
    const begun = this.#rewinds.of(state.runKey, 1).at(-1);
    const byLastPart = new Map<string, SeriesState[]>();
    for (const { summary } of metrics.values()) {
      if (summary.copyOf === null) addByLastPart(byLastPart, summary);
    }
    const ownMetrics =
      [...metrics.values()].filter(({ summary }) => summary.label === OWN_LABEL).length;
    return {
      base,
      metrics,
      ownMetrics,
      byLastPart,
      changed: [],
      stepShift: begun === undefined ? 0 : begun.first - begun.position,
    };
  }

  /** @param first seq of the batch's first step @param infoJson their further fields, if any */
  steps(
    state: RunState,
    first: number,
    { n, reward, tsNs }: Curve,
    infoJson: readonly string[] | undefined,
  ): void {
    const { head, summary } = this.#opened(state, state.live!.base[0]!);
    const sink = this.#sink(state.runKey, 1, 0, null);
    const atMs = (i: number) => msOf(tsNs(i));
    for (let i = 0; i < n; i++) {
      const value = typeof reward === "number" ? reward : reward[i]!;
      head.add(value, atMs, i, sink);
      summary.add(value, first + i);
    }
    if (infoJson === undefined) return;
    for (let i = 0; i < n; i++) {
      const info = infoJson[i]!;
      if (info.length > 4) this.record(state, info, first + i, tsNs(i), MAX_POINTS_PER_RECORD);
    }
  }

  episode(state: RunState, totalReward: number, length: number, tsNs: string): void {
    for (const [i, value] of [[1, totalReward], [2, length]] as const) {
      const { head, summary } = this.#opened(state, state.live!.base[i]!);
      head.add(value, () => msOf(tsNs), 0, this.#sink(state.runKey, i + 1, 0, null));
      summary.add(value, head.points);
    }
  }

  /** The source of the points of the following records. @param label "": the journal */
  from(attempt: number, label: string): void {
    this.#attempt = attempt;
    this.#label = label;
  }

  /**
   * The numeric fields of a record's JSON as points. @param step number of the step before it: its
   * position is used for points whose record names none itself. While the run has no steps, the
   * position of such a point is its index among the points of its metric and attempt, from 0, as in
   * a file without steps.
   */
  record(
    state: RunState,
    json: string,
    step: number,
    tsNs: string,
    most = MAX_POINTS_PER_EVENT,
  ): void {
    const { points, leftOut, step: named } = pointsOf(json, most);
    addViolation(state, TOO_MANY_POINTS, leftOut);
    if (named !== undefined && points.length > 0) {
      state.toldStep = Math.max(state.toldStep, named);
      if (state.attemptStep.attempt !== this.#attempt) {
        state.attemptStep = { attempt: this.#attempt, step: 0 };
      }
      state.attemptStep.step = Math.max(state.attemptStep.step, named);
    }
    const position = named ?? (step === 0 ? undefined : Math.max(0, step - state.live!.stepShift));
    for (const [name, value] of points) this.#point(state, name, value, position, msOf(tsNs));
  }

  /** Points without a record, at the run's newest step. */
  points(
    state: RunState,
    points: readonly (readonly [name: string, value: number])[],
    tsNs: string,
  ): void {
    const step = Math.max(state.toldStep, state.heads.steps - state.live!.stepShift);
    for (const [name, value] of points) this.#point(state, name, value, step, msOf(tsNs));
  }

  /** A point without a record, at its own step. */
  placed(state: RunState, { name, value, step, atMs }: Omit<OwnPoint, "attempt">): void {
    this.#point(state, name, value, step, atMs);
  }

  /** Writes the collected rows; call it before the commit. */
  finish(state: RunState): void {
    this.#beginComparisons();
    this.#points.flush();
    this.#buckets.flush();
    for (const summary of state.live!.changed.splice(0)) {
      summary.changed = false;
      this.#summaries.save(state.runKey, summary);
    }
  }

  /** Between two points. */
  #beginComparisons(): void {
    if (this.#due.length > 0) { for (const begin of this.#due.splice(0)) begin(); }
  }

  /** After a failed transaction. */
  reset(): void {
    this.#due.length = 0;
    this.#points.clear();
    this.#buckets.clear();
  }

  /** @param named undefined: its index in the attempt */
  #point(
    state: RunState,
    rawName: string,
    value: number,
    named: number | undefined,
    atMs: number,
  ): void {
    this.#beginComparisons();
    const live = state.live!;
    const name = rawName.isWellFormed() && !rawName.includes("\0")
      ? rawName
      : rawName.toWellFormed().replaceAll("\0", "");
    const holder = live.metrics.get(name)?.summary;
    const beside = isOneOfSeveral(name, this.#label)
      ? nameBeside(name, this.#label, (other) => this.#isFree(live.metrics, other, this.#label))
      : holder === undefined
      ? undefined
      : this.#beside(live.metrics, holder);
    const own = beside ?? name;
    let metric = live.metrics.get(own);
    if (metric === undefined) {
      if (this.#label === OWN_LABEL) live.ownMetrics++;
      else if (live.metrics.size - live.ownMetrics >= MAX_METRICS) {
        return addViolation(state, TOO_MANY_METRICS, 1);
      }
      const summary = new SeriesState(FIRST_METRIC_SERIES + live.metrics.size, own);
      live.metrics.set(own, metric = { summary, head: undefined });
    }
    // Also of a series that was stored before a restart: what had been compared is not.
    if (metric.isCompared !== true) {
      metric.isCompared = true;
      const { copyOf } = metric.summary;
      if (this.#label !== OWN_LABEL && beside === undefined && copyOf === null) {
        this.#compareOthers(state, metric.summary);
      }
    }
    if (holder !== undefined && beside !== undefined) {
      this.#compare(state, holder, metric.summary, "exactly");
    }
    const { head, summary } = this.#opened(state, metric);
    const follows = summary.points > 0 && summary.attempt > 0 && summary.attempt < this.#attempt;
    if (follows) summary.earlier = summary.points;
    const step = named ??
      summary.points - (summary.earlier ??= this.#earlier(state.runKey, summary.series));
    if (follows) {
      const start = { attempt: this.#attempt, first: summary.points + 1, position: step };
      this.#rewinds.put(state.runKey, summary.series, start);
    }
    summary.label = this.#label;
    summary.attempt = this.#attempt;
    const seq = ++state.heads.metrics;
    const back = summary.lastSeq === 0 ? 0 : seq - summary.lastSeq;
    // SQLite has infinities, but NULL for NaN, which this column does not allow.
    this.#points.add(
      state.runKey,
      seq,
      summary.series,
      back,
      step,
      atMs,
      Number.isNaN(value) ? "NaN" : value,
    );
    summary.add(value, step);
    summary.lastSeq = seq;
    for (const comparison of summary.comparisons) {
      this.#compared(state, comparison, summary, step, value);
    }
    if (!(summary.copyOf! > NO_COPY) && summary.rewardRank < Infinity) {
      reportedReward(state, summary, value);
    }
    head.add(value, () => atMs, 0, this.#sink(state.runKey, summary.series, seq, step));
  }

  /** With the series' end, and marked as being written. */
  #opened(state: RunState, series: LiveSeries): { head: SeriesHead; summary: SeriesState } {
    const { summary } = series;
    series.head ??= this.#headOf(state.runKey, summary);
    if (!summary.changed) {
      summary.changed = true;
      state.live!.changed.push(summary);
    }
    return { head: series.head, summary };
  }

  #headOf(runKey: number, { series, points, lastSeq }: SeriesState): SeriesHead {
    return new SeriesHead(
      points,
      points === 0 ? [] : openParts(this.#rows.source(runKey, series, points, lastSeq), points),
    );
  }

  /** How many points the series has of attempts before its newest. */
  #earlier(runKey: number, series: number): number {
    return (this.#rewinds.of(runKey, series).at(-1)?.first ?? 1) - 1;
  }

  /**
   * In each attempt a name belongs to the source that has it first, or to a more exact one; a
   * source whose points were copies in an earlier attempt stays beside it.
   * @returns the name of this source's series, if it is not `holder`
   */
  #beside(metrics: ReadonlyMap<string, LiveSeries>, holder: SeriesState): string | undefined {
    if (holder.label === this.#label) return undefined;
    const isFree = (name: string) => this.#isFree(metrics, name, this.#label);
    const beside = nameBeside(holder.name, this.#label, isFree);
    if (holder.attempt === this.#attempt) return beside;
    return metrics.get(beside)?.summary.copyOf === holder.series ? beside : undefined;
  }

  #isFree(metrics: ReadonlyMap<string, LiveSeries>, name: string, label: string): boolean {
    const known = metrics.get(name)?.summary;
    return known === undefined || known.label === label || known.attempt !== this.#attempt;
  }

  /**
   * Series of other sources whose names differ by what is before one of them: `loss` and
   * `train/loss`, `a/b` and `ray/tune/a/b`; or by how they are spelled.
   */
  #compareOthers(state: RunState, added: SeriesState): void {
    const { byLastPart } = state.live!;
    for (const known of new Set(keysOf(added.name).flatMap((key) => byLastPart.get(key) ?? []))) {
      const isSame = spelled(known.name) === spelled(added.name);
      const isWithin = isSame || endsWithName(known.name, added.name) ||
        endsWithName(added.name, known.name);
      const isOther = known !== added && known.label !== this.#label;
      if (isWithin && isOther && known.copyOf === null) {
        this.#compare(state, known, added, isSame ? "alike" : "no");
      }
    }
    addByLastPart(byLastPart, added);
  }

  /**
   * Begins a comparison of two series, unless it has begun or is decided, with the points that are
   * stored.
   */
  #compare(state: RunState, known: SeriesState, added: SeriesState, sameName: SameName): void {
    if (added.copyOf === NO_COPY || known === added) return;
    if (added.comparisons.some(({ of }) => of.includes(known))) return;
    // Decided, and enough was compared; after a restart, it is compared again.
    if (added.copyOf === known.series && added.wasCompared) return;
    // The series are read from the tables.
    this.#points.flush();
    this.#buckets.flush();
    // Of two that are as exact the first is the series: with other names always the shorter, so
    // that the runs of a sweep agree, and of two spellings the one without directories.
    const isFirst = known.name.length === added.name.length && sameName === "alike"
      ? known.name > added.name
      : known.name.length <= added.name.length;
    const of: Comparison["of"] = isFirst ? [known, added] : [added, known];
    const comparison: Comparison = { twins: new Twins(sameName), of };
    added.wasCompared = true;
    for (const summary of comparison.of) {
      summary.comparisons.push(comparison);
      const { points, lastSeq, series } = summary;
      if (points === 0) continue;
      const source = this.#rows.source(state.runKey, series, points, lastSeq);
      const stored = [...source.points(1, Math.min(points, COMPARED))];
      stored.forEach(({ step, lastValue, count }) => {
        if (count > 0) this.#compared(state, comparison, summary, step ?? 0, lastValue);
      });
      const tail = points <= 2 * COMPARED ? [] : source.points(points - COMPARED + 1, points);
      tail.forEach(({ step, lastValue, count }, i) => {
        // The first ones may be further points of a step whose beginning is not read.
        if (count === 0 || step === tail[0]!.step) return;
        this.#compared(
          state,
          comparison,
          summary,
          step ?? 0,
          lastValue,
          step !== tail[i - 1]?.step ? false : undefined,
        );
      });
    }
  }

  #compared(
    state: RunState,
    comparison: Comparison,
    summary: SeriesState,
    step: number,
    value: number,
    follows = true,
  ): void {
    const { twins, of } = comparison;
    const before = twins.verdict;
    const exactBefore = twins.exact;
    twins.add(summary === of[0] ? 0 : 1, step, value, follows);
    if (twins.verdict !== before || twins.exact !== exactBefore) this.#decide(state, comparison);
    if (twins.isFinal) {
      for (const one of of) {
        one.comparisons = one.comparisons.filter((other) => other !== comparison);
      }
    }
  }

  /** The more exact of two equal series has the name; the other one is its copy. */
  #decide(state: RunState, { twins, of }: Comparison): void {
    if (twins.verdict === "unknown") return;
    const exact = of[twins.exact]!;
    const copy = of[1 - twins.exact]!;
    const metrics = state.live!.metrics;
    for (const one of of) this.#opened(state, metrics.get(one.name)!);
    if (twins.verdict === "different") {
      // They were equal as far as they had been compared, or nothing was known.
      const [known, added] = of;
      if (known.copyOf === added.series) known.copyOf = NO_COPY;
      else if (added.copyOf === null || added.copyOf === known.series) added.copyOf = NO_COPY;
      return;
    }
    if (exact.copyOf === copy.series) exact.copyOf = null;
    // What it was a copy of until now may be the same as the exact one.
    const former = copy.copyOf ?? NO_COPY;
    if (former > NO_COPY && former !== exact.series) {
      const known = [...metrics.values()].find(({ summary }) => summary.series === former)?.summary;
      if (known !== undefined) this.#due.push(() => this.#compare(state, known, exact, "no"));
    }
    copy.copyOf = exact.series;
    if (exact.name.startsWith(`${copy.name}@`)) {
      const [plain, other] = [metrics.get(copy.name)!, metrics.get(exact.name)!];
      const name = copy.name;
      metrics.delete(exact.name);
      copy.name = nameBeside(name, copy.label, (beside) => !metrics.has(beside));
      exact.name = name;
      metrics.set(copy.name, plain).set(name, other);
      addByLastPart(state.live!.byLastPart, exact);
    }
    if (exact.rewardRank < Infinity && exact.finite > 0) reportedReward(state, exact, exact.last);
  }

  #sink(runKey: number, series: number, lastSeq: number, step: number | null): BucketSink {
    return (level, bucket, { min, max, sum, count, lastValue }, atMs) =>
      this.#buckets.add(
        runKey,
        series,
        level,
        bucket,
        min,
        max,
        sum,
        count,
        lastValue,
        atMs,
        lastSeq,
        step,
      );
  }
}

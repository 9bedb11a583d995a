/**
 * Which trials are stopped early: a pure function of the reports that were entered before (each a
 * trial's value at a rung, in the order in which the daemon saw them). The reports are rows of the
 * registry, so every daemon decides the same.
 */
import { number } from "../base/text/format.ts";
import { spreadOf } from "../telemetry/series/groups.ts";
import { EVENLY, type StopRule, type SweepSpec } from "./spec.ts";

type Over = NonNullable<StopRule["over"]>;
export type Goal = NonNullable<SweepSpec["metric"]>["goal"];

export interface Report {
  trial: number;
  /** From 1. */
  rung: number;
  value: number;
  /** The mean and the best of the trial's values up to the rung. */
  mean: number;
  best: number;
}

export interface Decision {
  stops: boolean;
  reason: string;
}

/** Trials that `median` compares with at least. */
const LEAST_OTHERS = 3;

/** Hyperband's trials take turns in its brackets, whose first rungs lie further and further. */
export function bracketOf({ brackets }: StopRule, trial: number): number {
  return trial % brackets;
}

/** Where a trial is judged, ascending: steps, or numbers of points. */
export function rungsOf(rule: StopRule, trial: number): number[] {
  const { min, max, reduction } = rule;
  const rungs: number[] = [];
  if (EVENLY.includes(rule.rule)) {
    for (let at = min; at < max; at += min) rungs.push(at);
    return rungs;
  }
  for (let k = bracketOf(rule, trial);; k++) {
    const at = Math.ceil(min * reduction ** k - 1e-9);
    if (at >= max) return rungs;
    rungs.push(at);
  }
}

function ordinal(n: number): string {
  const last = n % 100 >= 11 && n % 100 <= 13 ? 0 : n % 10;
  return `${n}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

const medianOf = (sorted: readonly number[]) =>
  (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;

/** One value over a point's seeds, of those that are finite; NaN if none is. */
function overSeeds(over: Over, reports: readonly Report[]): { value: number; text: string } {
  const values = reports.map(({ value }) => value).filter(Number.isFinite).sort((a, b) => a - b);
  if (values.length === 0) return { value: NaN, text: "" };
  if (over === "median") {
    return { value: medianOf(values), text: `median ${number(medianOf(values))}` };
  }
  if (over === "iqm") {
    const { middle, low, high } = spreadOf(values, "iqm");
    return {
      value: middle,
      text: `interquartile mean ${number(middle)} [${number(low)}, ${number(high)}]`,
    };
  }
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { value: mean, text: `mean ${number(mean)}` };
}

/**
 * - `asha`, `hyperband`: of all trials of the bracket that have reached the rung, one in
 *   `reduction` goes on, at least one; the same rule as Optuna's SuccessiveHalvingPruner. Equal
 *   values are equally good.
 * - the same over points: the mean, median or interquartile mean over the point's trials at the
 *   rung is ranked among those of the other points
 * - `pbt`: of all trials that have reached the rung, one in `reduction`, the worst, gives way to
 *   another (population.ts)
 * - `optimizer`: nobody is stopped by what is stored; a program says later who is
 * - `median`: a trial stops whose best value is worse than the median of the other trials' means up
 *   to the rung
 *
 * @param earlier in the order in which they were entered; those of other rungs do not count
 * @param pointOf a trial's point; the same for its seeds
 */
export function decide(
  rule: StopRule,
  goal: Goal,
  earlier: readonly Report[],
  report: Report,
  pointOf: (trial: number) => string,
): Decision {
  const rungs = rungsOf(rule, report.trial).length;
  const where = `rung ${report.rung} of ${rungs}`;
  if (rule.rule === "optimizer") {
    return { stops: false, reason: `${where}: ${number(report.value)}` };
  }
  if (!Number.isFinite(report.value)) {
    return { stops: true, reason: `${where}: the value is ${report.value}` };
  }
  const better = (a: number, b: number) => goal === "max" ? a > b : a < b;
  const others = earlier.filter(({ trial, rung }) =>
    rung === report.rung && trial !== report.trial &&
    bracketOf(rule, trial) === bracketOf(rule, report.trial)
  );
  if (rule.rule === "median") {
    const means = others.map(({ mean }) => mean).filter(Number.isFinite).sort((a, b) => a - b);
    if (means.length < LEAST_OTHERS) {
      return {
        stops: false,
        reason: `${where}: ${means.length} other trials are too few to compare with`,
      };
    }
    const median = medianOf(means);
    const stops = better(median, report.best);
    const than = stops ? "worse than" : "not worse than";
    return {
      stops,
      reason: `${where}: best ${number(report.best)} is ${than} ${
        number(median)
      }, the median of ${means.length} means`,
    };
  }
  const finite = others.filter(({ value }) => Number.isFinite(value));
  const { over = "trial" } = rule;
  const points = over !== "trial";
  const isOwn = ({ trial }: Report) => pointOf(trial) === pointOf(report.trial);
  const own = points ? [...finite.filter(isOwn), report] : [report];
  const { value, text } = points
    ? overSeeds(over, own)
    : { value: report.value, text: number(report.value) };
  const rivals = points
    ? [...Map.groupBy(others.filter((one) => !isOwn(one)), ({ trial }) => pointOf(trial)).values()]
      .map((seeds) => overSeeds(over, seeds).value)
    : others.map(({ value }) => value);
  const count = rivals.length + 1;
  const place = rivals.filter((rival) => Number.isFinite(rival) && better(rival, value)).length + 1;
  if (rule.rule === "pbt") {
    const part = Math.floor(count / rule.reduction);
    const give = part === 0
      ? "nobody gives way"
      : part === 1
      ? "the last gives way"
      : `the last ${part} give way`;
    return {
      stops: place > count - part,
      reason: `${where}: ${text} is ${ordinal(place)} of ${count}, ${give}`,
    };
  }
  const kept = Math.max(1, Math.floor(count / rule.reduction));
  const what = points ? `${text} of ${own.length} seeds` : text;
  const goOn = kept === 1 ? "1 goes on" : `${kept} go on`;
  return {
    stops: place > kept,
    reason: `${where}: ${what} is ${ordinal(place)} of ${count}${points ? " points" : ""}, ${goOn}`,
  };
}

/**
 * Which of the trials that wait at a rung go on, because later trials were worse, and which are
 * stopped, because more wait than may: of the lowest rung first, then the worst.
 * @param reached all reports, one for each trial and rung @param waiting the reports at which
 * trials wait
 */
export function decideHeld(
  rule: StopRule,
  goal: Goal,
  reached: (rung: number) => readonly Report[],
  waiting: readonly Report[],
  pointOf: (trial: number) => string,
): (Decision & { trial: number })[] {
  const decided = waiting.map((report) => ({
    report,
    ...decide(rule, goal, reached(report.rung), report, pointOf),
  }));
  const left = decided.filter(({ stops }) => stops).sort(({ report: a }, { report: b }) =>
    a.rung - b.rung || (goal === "max" ? a.value - b.value : b.value - a.value) || b.trial - a.trial
  );
  const { hold = 0 } = rule;
  const beyond = left.slice(0, Math.max(0, left.length - hold)).map((
    { report: { trial }, reason },
  ) => ({
    ...{ trial, stops: true },
    reason: `${reason}, and no more than ${hold} wait`,
  }));
  const goOn = decided.filter(({ stops }) => !stops).map(({ report: { trial }, reason }) => ({
    ...{ trial, stops: false, reason },
  }));
  return [...goOn, ...beyond];
}

/**
 * What people see of a sweep: its trials, its points with mean and interval over their seeds, the
 * best, and what was saved.
 */
import { withoutSecrets } from "../../base/text/secrets.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { presentConfig } from "../../config/present_config.ts";
import { LIVE_STATES, PRUNED } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { SweepReport, SweepRow, TrialRow } from "../../registry/sweeps/sweep_rows.ts";
import { spreadOf } from "../../telemetry/series/groups.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";
import { valuesAt } from "../points.ts";
import { stepsOf } from "../spent.ts";
import { rungsOf } from "../stopping.ts";
import { seedsOf, type SpecOutline, specOutline } from "../outline.ts";
import { MOST_TRIALS, type SweepSpec, type Value } from "../spec.ts";
import { shellLine } from "../../base/text/terminal_text.ts";
import { commandOf, meaningOf } from "../trial_config.ts";
import { statement } from "./statement.ts";
import type { Parameters, PointJson, SweepJson, TrialJson, WinnerJson } from "./sweep_json.ts";

interface Readers {
  registry: Pick<Registry, "sweeps" | "get">;
  records: TelemetryReader;
}

/** Trials read between two turns of other work. */
const AT_ONCE = 500;
export const MOST_LISTED = 10_000;
/** Of a metric that never came: trials that are looked at, and names that are said. */
const LOOKED_AT = 20;
const MOST_NAMED = 10;

const iso = (ms: number) => new Date(ms).toISOString();

/** @param trouble that keeps the sweep from going on */
export function sweepOutline(
  { registry }: Readers,
  row: SweepRow,
  { total, ...of }: SpecOutline,
  trouble: string | undefined,
): SweepJson {
  return {
    sweep_id: row.sweepId,
    name: row.name,
    state: row.state,
    created_at: iso(row.createdAt),
    total,
    made: row.nextTrial,
    states: Object.fromEntries(
      Object.entries(registry.sweeps.counts(row.sweepId)).map((
        [state, n],
      ) => [state.toLowerCase(), n]),
    ),
    ...of,
    waiting_for: trouble ?? null,
  };
}

/** @param listed how many of the newest trials are listed one by one */
export async function sweepSummary(
  readers: Readers,
  row: SweepRow,
  spec: SweepSpec,
  listed: number,
  trouble?: string,
): Promise<SweepJson> {
  const { registry, records } = readers;
  const { metric, stop } = spec;
  const rows = registry.sweeps.trials(row.sweepId, 0, MOST_TRIALS);
  const newest = new Map(
    metric === undefined
      ? []
      : records.seriesNamed(metric.name).map(({ runId, last }) => [runId, last]),
  );
  const reports = registry.sweeps.reports(row.sweepId);
  // Values of trials that were stopped are those of different steps, except at the rung that all
  // have reached.
  const atFirstRung = stop !== undefined && stop.brackets === 1 &&
    reports.some(({ stops }) => stops);
  const firstRung = new Map(
    atFirstRung ? reports.filter(({ rung }) => rung === 1).map((r) => [r.trial, r.value]) : [],
  );
  const trials: TrialJson[] = [];
  for (const [i, trial] of rows.entries()) {
    const one = trialJson(records, spec, trial, newest);
    const judged = atFirstRung ? firstRung.get(one.trial) : counts(one) ? one.value! : undefined;
    trials.push({
      ...one,
      judged: judged !== undefined && Number.isFinite(judged) ? judged : null,
    });
    if (i % AT_ONCE === AT_ONCE - 1) await yieldToOthers();
  }
  const better = (a: number, b: number) => metric?.goal === "min" ? a < b : a > b;
  const points = pointsOf(trials, spec);
  const valued = points.filter(({ mean }) => mean !== null);
  const most = valued.reduce((most, { values }) => Math.max(most, values), 0);
  const bestOfPoints = (of: readonly PointJson[]) =>
    of.reduce<PointJson | null>(
      (best, one) => best === null || better(one.mean!, best.mean!) ? one : best,
      null,
    );
  const winning = bestOfPoints(valued.filter(({ values }) => values === most));
  const second = bestOfPoints(valued.filter((one) => one !== winning));
  const winner = winning === null ? null : winnerJson(registry, winning, second, trials, spec);
  const best = trials.filter(counts)
    .reduce<TrialJson | null>(
      (best, one) => best === null || better(one.value!, best.value!) ? one : best,
      null,
    );
  const reported = metric === undefined || trials.some(({ value }) => value !== null)
    ? []
    : reportedNames(records, rows);
  const outline = sweepOutline(readers, row, specOutline(spec), trouble);
  const sums = {
    spent: {
      seconds: Math.round(registry.sweeps.runMs(row.sweepId) / 1000),
      steps: trials.reduce((sum, { steps }) => sum + steps, 0),
    },
    saved: saved(trials, stop, reports),
  };
  return {
    ...outline,
    detail: {
      ...sums,
      best: best === null
        ? null
        : { ...bestOf(best), command: commandLine(registry, best.run_id!) },
      winner,
      reported,
      statement: statement(
        outline,
        { ...sums, winner, points, reported },
        stop === undefined ? [] : rungsOf(stop, 0),
      ),
      next_seeds: nextSeeds(trials, seedsOf(spec)),
      judged_at: atFirstRung ? rungsOf(stop, 0)[0]! : null,
      points: points.slice(0, MOST_LISTED),
      trials: trials.toReversed().slice(0, Math.min(listed, MOST_LISTED)),
      best_so_far: bestSoFar(trials, rows, better),
      ...(stop?.rule === "optimizer" ? { reports: reportsOf(reports, trials) } : {}),
      stopped: stopped(reports, trials),
    },
  };
}

/** Of the newest trial that has metrics: one that misses tells what it could have been called. */
function reportedNames(records: TelemetryReader, rows: readonly TrialRow[]): string[] {
  for (const { runId, state } of rows.slice(-LOOKED_AT).toReversed()) {
    const names = runId === null || state === null
      ? []
      : records.listSeries(runId).filter(({ last }) => last !== null).map(({ name }) => name);
    if (names.length > 0) return [...new Set(names)].sort().slice(0, MOST_NAMED);
  }
  return [];
}

function trialJson(
  records: TelemetryReader,
  spec: SweepSpec,
  row: TrialRow,
  newest: ReadonlyMap<string, number | null>,
): Omit<TrialJson, "judged"> {
  const { trial, runId, refusal, reason, startedAt, finishedAt } = row;
  const pruned = row.state === "CANCELLED" && reason === PRUNED;
  const state = runId === null
    ? "refused"
    : row.state === null
    ? "deleted"
    : pruned
    ? PRUNED
    : row.state.toLowerCase();
  return {
    trial,
    run_id: runId,
    state,
    parameters: withoutSecrets(
      "",
      Object.fromEntries(
        [...valuesAt(spec, trial)].map(([name, value]) => [name, meaningOf(value)]),
      ),
    ) as Parameters,
    value: runId === null ? null : newest.get(runId) ?? null,
    steps: row.state === null ? 0 : stepsOf(records, runId!),
    seconds: startedAt === null
      ? 0
      : Math.max(0, Math.round(((finishedAt ?? Date.now()) - startedAt) / 100) / 10),
    started_at: startedAt === null ? null : iso(startedAt),
    finished_at: finishedAt === null ? null : iso(finishedAt),
    reason: refusal ?? reason,
  };
}

/**
 * Whether a trial's value is one of its point: those of stopped and failed trials belong to earlier
 * steps.
 */
function counts({ state, value }: Pick<TrialJson, "state" | "value">): boolean {
  return value !== null &&
    !["pruned", "faulted", "cancelled", "refused", "deleted"].includes(state);
}

/** By name: `sweep extend` may give the parameters of a point in another order. */
function unseeded(
  { parameters }: TrialJson,
  seeds: ReadonlySet<string>,
): [name: string, value: Value][] {
  return Object.entries(parameters).filter(([name]) => !seeds.has(name));
}

const keyOf = (parameters: readonly [name: string, value: Value][]) =>
  JSON.stringify(parameters.toSorted(([a], [b]) => a < b ? -1 : 1));

function pointsOf(trials: readonly TrialJson[], spec: SweepSpec): PointJson[] {
  const seeds = seedsOf(spec);
  const groups = Map.groupBy(trials, (trial) => keyOf(unseeded(trial, seeds)));
  return [...groups.values()].map((members) => {
    const values = members.filter(counts).map(({ value }) => value!);
    const spread = values.length === 0 ? null : spreadOf(values, "ci95");
    const interval = values.length > 1 ? spread : null;
    return {
      parameters: Object.fromEntries(unseeded(members[0]!, seeds)),
      trials: members.length,
      pruned: members.filter(({ state }) => state === PRUNED).length,
      failed: members.filter(({ state }) => state === "faulted" || state === "refused").length,
      values: values.length,
      mean: spread?.middle ?? null,
      low: interval?.low ?? null,
      high: interval?.high ?? null,
    };
  });
}

function winnerJson(
  registry: Readers["registry"],
  point: PointJson,
  second: PointJson | null,
  trials: readonly TrialJson[],
  spec: SweepSpec,
): WinnerJson {
  const seeds = seedsOf(spec);
  const key = keyOf(Object.entries(point.parameters));
  const its = trials.filter((trial) => counts(trial) && keyOf(unseeded(trial, seeds)) === key);
  const { trial, run_id } = its[0]!;
  return {
    ...point,
    ...{ trial, run_id: run_id!, second },
    command: commandLine(registry, run_id!),
    iqm: its.length < 4 ? null : spreadOf(its.map(({ value }) => value!), "iqm"),
  };
}

/** After those that were tried, as many as these; null if no seed is a number. */
function nextSeeds(trials: readonly TrialJson[], seeds: ReadonlySet<string>): string | null {
  const tried = new Set(
    trials.flatMap(({ parameters }) => [...seeds].map((name) => parameters[name])),
  );
  const numbers = [...tried].filter((seed) => typeof seed === "number");
  const most = numbers.reduce((most, seed) => Math.max(most, seed), -Infinity);
  return numbers.length === 0 ? null : `${most + 1}..${most + numbers.length}`;
}

const bestOf = ({ trial, run_id, value, parameters }: TrialJson) => ({
  trial,
  run_id: run_id!,
  value: value!,
  parameters,
});

/** For people: without secrets. */
function commandLine(registry: Readers["registry"], runId: string): string {
  const { configJson } = registry.get(runId) ?? { configJson: "{}" };
  const shown = JSON.parse(presentConfig(configJson, false).text);
  return typeof shown === "object" && shown !== null ? shellLine(commandOf(shown)) : "";
}

/** At the ends of trials, in their order. */
function bestSoFar(
  trials: readonly TrialJson[],
  rows: readonly TrialRow[],
  better: (a: number, b: number) => boolean,
) {
  const ended = trials.flatMap((trial, i) => {
    const { finishedAt } = rows[i]!;
    return counts(trial) && finishedAt !== null
      ? [{ at: finishedAt, trial: trial.trial, value: trial.value! }]
      : [];
  }).sort((a, b) => a.at - b.at);
  let best: number | undefined;
  return ended.flatMap(({ at, trial, value }) => {
    if (best !== undefined && !better(value, best)) return [];
    best = value;
    return [{ at: iso(at), trial, value }];
  });
}

/** The newest value of each live trial waits for a decision. */
function reportsOf(reports: readonly SweepReport[], trials: readonly TrialJson[]) {
  const newest = new Map(reports.map(({ trial, rung }) => [trial, rung]));
  const isLive = ({ state }: TrialJson) => LIVE_STATES.some((live) => live.toLowerCase() === state);
  return reports.filter(({ stops }) => !stops).map(({ trial, rung, step, value }) => ({
    ...{ trial, rung, step, value: Number.isFinite(value) ? value : null },
    waits: newest.get(trial) === rung && trials[trial] !== undefined && isLive(trials[trial]),
  }));
}

function stopped(reports: readonly SweepReport[], trials: readonly TrialJson[]) {
  return reports.filter(({ stops, trial }) => stops && trials[trial]?.state === PRUNED)
    .map(({ trial, rung, step, value, reason, at }) => ({
      trial,
      run_id: trials[trial]!.run_id!,
      rung,
      step,
      value: Number.isFinite(value) ? value : null,
      reason,
      at: iso(at),
    }));
}

function saved(
  trials: readonly TrialJson[],
  stop: SweepSpec["stop"],
  reports: readonly SweepReport[],
) {
  const pruned = trials.filter(({ state }) => state === PRUNED);
  if (stop === undefined) return { trials: pruned.length, steps: 0, seconds: 0 };
  const rungs = new Map(reports.map(({ trial, rung }) => [trial, rung]));
  const ended = trials.filter(({ state }) => state === "terminated");
  // Whoever wrote the rule may not have known how long a trial is.
  const whole = ended.length === 0 ? Infinity : Math.max(...ended.map(({ steps }) => steps));
  const left = pruned.map(({ trial, steps, seconds }) => {
    const place = rungsOf(stop, trial)[(rungs.get(trial) ?? 0) - 1] ?? 0;
    const done = stop.unit === "step" ? steps : stop.unit === "time" ? seconds : place;
    const longest = steps > 0 ? whole / steps * done : Infinity;
    const rest = Math.max(0, Math.min(stop.max, longest) - done);
    // At its own pace.
    const times = done === 0 ? 0 : rest / done;
    return {
      steps: Math.round(steps * times),
      seconds: seconds * times,
    };
  });
  return {
    trials: pruned.length,
    steps: left.reduce((sum, { steps }) => sum + steps, 0),
    seconds: Math.round(left.reduce((sum, { seconds }) => sum + seconds, 0)),
  };
}

/**
 * What `mosaic report` and the page's button write of runs. Its texts and curves come from a
 * reader, so that both can.
 */
import { count, duration, localTime, number } from "../../base/text/format.ts";
import { VERSION } from "../../base/version.ts";
import { type ComparisonRow, configDifferences } from "../../config/differences.ts";
import { type Band, BANDS, type Groupable } from "../../telemetry/series/groups.ts";
import { progressSeries } from "../../records/progress_series.ts";
import type { AttemptsCode } from "../../provenance/code_record.ts";
import { codeDifferences } from "../code_facts.ts";
import { type CurveBucket, damagedPoints, position, requireSeries, xLabel } from "../curves.ts";
import { valueText } from "../parameter_text.ts";
import { parameterDifferences, rowsWithoutSecrets } from "../run_differences.ts";
import {
  commonText,
  groupByOf,
  groupPoints,
  groupValue,
  inGroups,
  spreadText,
  statesText,
} from "../run_groups.ts";
import type { ReportChart, ReportCurve } from "./chart.ts";
import { stateWord } from "../fields/lifecycle_states.ts";

/** Bound on charts, unless metrics are named. */
export const MOST_CHARTS = 24;
/** Points per curve: a chart is some 500 pixels wide. */
const BUCKETS = 400;
const AT_ONCE = 8;

/** A run as a report shows it. Times are Unix milliseconds. */
export interface ReportedRun extends Groupable {
  run_id: string;
  state: string;
  notes: string;
  startedAt: number | null;
  finishedAt: number | null;
  steps: number;
  episodes: number;
  /** The metric by which it is judged, such as `eval/reward:max`. */
  objective?: string | undefined;
  parameters: readonly { name: string; value: unknown }[];
  config: unknown;
  /** Undefined: nothing is recorded. */
  code?: AttemptsCode | undefined;
}

export interface ReportSeries {
  name: string;
  points: bigint | number;
  last?: number | null | undefined;
  min?: number | null | undefined;
  max?: number | null | undefined;
}

/**
 * Where a report's series come from: a daemon that a client calls, or the daemon's own telemetry.
 */
export interface ReportReader {
  series(runId: string): Promise<readonly ReportSeries[]>;
  curve(
    runId: string,
    name: string,
    buckets: number,
    overwritten: boolean,
  ): Promise<readonly CurveBucket[]>;
}

/** The options of `mosaic report` of the same names. */
export interface ReportOptions {
  /** Undefined: the first `MOST_CHARTS` that runs have. */
  metrics?: readonly string[] | undefined;
  groupBy?: string | undefined;
  band: Band;
  log: boolean;
  time: boolean;
  overwritten: boolean;
  title?: string | undefined;
}

/**
 * @returns the HTML. @throws MosaicError `not_found` for a metric that no run has,
 * `invalid_argument` for `groupBy`
 */
export async function reportOf(
  reader: ReportReader,
  now: number,
  runs: readonly ReportedRun[],
  options: ReportOptions,
): Promise<string> {
  // Loaded here, because help needs neither templates nor Markdown.
  const { reportPage } = await import("./page.ts");
  return reportPage(await contents(reader, now, runs, options));
}

/** Some at a time; results in order. */
export async function inBatches<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    results.push(...await Promise.all(items.slice(at, at + AT_ONCE).map(work)));
  }
  return results;
}

/** One curve of the report: a run, or runs that are drawn as one. */
interface Member {
  name: string;
  runs: ReportedRun[];
}

async function contents(
  reader: ReportReader,
  now: number,
  runs: readonly ReportedRun[],
  options: ReportOptions,
) {
  const lists = new Map(
    await inBatches(runs, async ({ run_id }) => {
      const having = (await reader.series(run_id)).filter(({ points }) => points > 0);
      return [run_id, new Map(having.map((series) => [series.name, series]))] as const;
    }),
  );
  const by = options.groupBy;
  const members: Member[] = by === undefined
    ? runs.map((run) => ({ name: named(run, runs), runs: [run] }))
    : inGroups(runs, (run) => run, groupByOf(by)).map(({ name, members }) => ({
      name,
      runs: members,
    }));
  const known = [...new Set([...lists.values()].flatMap((list) => [...list.keys()]))].sort((a, b) =>
    a.localeCompare(b)
  );
  const requested = options.metrics;
  requireSeries(requested ?? [], known);
  const main = progressSeries(
    known.map((name) => ({ name, points: 1n })),
    runs.map(({ objective }) => objective),
  );
  // The most significant first; the machine's own last; the "reward" of steps after that of
  // episodes.
  const weight = (name: string) =>
    name === main ? 0 : name.startsWith("system/") ? 3 : name === "reward" ? 2 : 1;
  const ordered = known.toSorted((a, b) => weight(a) - weight(b));
  const drawn = requested ?? ordered.slice(0, MOST_CHARTS);
  const charts: ReportChart[] = [];
  for (const name of drawn) charts.push(await chartOf(reader, name, members, lists, options));
  const leftOut: string[] = [];
  if (requested === undefined && known.length > drawn.length) {
    const rest = ordered.slice(MOST_CHARTS).join(", ");
    leftOut.push(
      `The curves of ${known.length - drawn.length} series: ${rest}. -m NAME draws one.`,
    );
  }
  leftOut.push("Logs, single records, and artifacts such as checkpoints and videos.");
  const grouped = by !== undefined;
  const column = (of: (run: ReportedRun) => string) =>
    members.map((m) => commonText(m.runs.map(of)));
  const parameters = parameterDifferences(runs).map(({ name, values }) => ({
    name,
    values: column((run) => valueText(values[runs.indexOf(run)])),
  }));
  const inAll = sharedParameters(runs);
  const configs = rowsWithoutSecrets(configDifferences(runs)).map(({ name, values }) => ({
    name,
    values: column((run) => values[runs.indexOf(run)]!),
  }));
  const names = members.map(({ name }) => name);
  return {
    title: options.title ?? titleOf(names),
    about: [
      `${runs.length} ${runs.length === 1 ? "run" : "runs"}`,
      ...(grouped
        ? [
          `${members.length} groups by ${by}`,
          `values are mean ± standard deviation of a group's runs`,
        ]
        : []),
    ].join(", ") + ".",
    made:
      `Made by mosaic ${VERSION} on ${
        localTime(now)
      } (${zone()}). Each point of a curve is the mean of a range of ` +
      `at most ${BUCKETS} ranges; the tables behind the charts have some of them.`,
    curves: names,
    overview: overview(members, main, lists, now),
    notes: runs.filter(({ notes }) => notes !== "").map((run) => ({
      run: named(run, runs),
      text: run.notes,
    })),
    charts,
    tables: [
      {
        title: "Last value of each series",
        head: ["series", ...names],
        rows: figures(known, members, lists, ({ last }) => last),
      },
      { title: "Parameters that differ", head: ["parameter", ...names], rows: parameters },
      { title: "Parameters that all share", head: ["parameter", "value"], rows: inAll },
      {
        title: "Code and environment",
        head: ["", ...names],
        rows: codeDifferences(runs.map(({ code }) => code)).map(({ name, values }) => ({
          name,
          values: column((run) => values[runs.indexOf(run)]!),
        })),
      },
      { title: "Differences of the configs", head: ["field", ...names], rows: configs },
    ],
    leftOut,
  };
}

/** With a part of its id if another run has the same name. */
function named({ name, run_id }: ReportedRun, runs: readonly ReportedRun[]): string {
  return runs.filter((run) => run.name === name).length > 1
    ? `${name} (${run_id.slice(0, 10)})`
    : name;
}

function titleOf(names: readonly string[]): string {
  const shown = names.slice(0, 4).join(", ");
  return names.length > 4 ? `${shown} and ${names.length - 4} more` : shown;
}

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function overview(
  members: readonly Member[],
  main: string | undefined,
  lists: Map<string, Map<string, ReportSeries>>,
  now: number,
) {
  const spread = (
    { runs }: Member,
    of: (run: ReportedRun) => number | null | undefined,
    text = number,
  ) => {
    if (runs.length > 1) return spreadText(groupValue(runs.map(of)), runs.length);
    const value = of(runs[0]!) ?? null;
    return value === null ? "" : text(value);
  };
  const item = (run: ReportedRun) =>
    main === undefined ? undefined : lists.get(run.run_id)!.get(main);
  const several = members.some(({ runs }) => runs.length > 1);
  const ofMain = main === undefined
    ? []
    : [`${main}, last`, `${main}, smallest`, `${main}, largest`];
  return {
    head: [
      "run",
      ...(several ? ["runs"] : ["id"]),
      "state",
      "started",
      several ? "seconds" : "elapsed",
      "steps",
      "episodes",
      ...ofMain,
    ],
    rows: members.map((member) => ({
      name: member.name,
      cells: [
        several ? String(member.runs.length) : member.runs[0]!.run_id,
        member.runs.length === 1
          ? stateWord(member.runs[0]!.state)
          : statesText(member.runs.map(({ state }) => stateWord(state))),
        firstStart(member.runs),
        spread(member, (run) => elapsedSeconds(run, now), (seconds) => duration(seconds * 1000)),
        spread(member, (run) => run.steps, count),
        spread(member, (run) => run.episodes, count),
        ...(main === undefined ? [] : [
          spread(member, (run) => item(run)?.last),
          spread(member, (run) => item(run)?.min),
          spread(member, (run) => item(run)?.max),
        ]),
      ],
    })),
  };
}

function firstStart(runs: readonly ReportedRun[]): string {
  const starts = runs.map(({ startedAt }) => startedAt).filter((at) => at !== null);
  return starts.length === 0 ? "" : localTime(Math.min(...starts));
}

function elapsedSeconds({ startedAt, finishedAt }: ReportedRun, now: number): number | null {
  return startedAt === null ? null : Math.max(0, (finishedAt ?? now) - startedAt) / 1000;
}

function figures(
  names: readonly string[],
  members: readonly Member[],
  lists: Map<string, Map<string, ReportSeries>>,
  of: (item: ReportSeries) => number | null | undefined,
): ComparisonRow[] {
  return names.map((name) => ({
    name,
    values: members.map(({ runs }) => {
      const values = runs.map(({ run_id }) => {
        const item = lists.get(run_id)!.get(name);
        return item === undefined ? null : of(item) ?? null;
      });
      if (runs.length > 1) return spreadText(groupValue(values), runs.length);
      return values[0] === null ? "" : number(values[0]!);
    }),
  }));
}

/** Parameters with the same value in all runs; for a single run, all of its parameters. */
function sharedParameters(runs: readonly ReportedRun[]): ComparisonRow[] {
  const [first, ...others] = runs.map(({ parameters }) =>
    new Map(parameters.map(({ name, value }) => [name, valueText(value)]))
  );
  return [...first!].filter(([name, value]) => others.every((other) => other.get(name) === value))
    .map(([name, value]) => ({ name, values: [value] }));
}

async function chartOf(
  reader: ReportReader,
  name: string,
  members: readonly Member[],
  lists: Map<string, Map<string, ReportSeries>>,
  { groupBy, band, time, overwritten, log }: ReportOptions,
): Promise<ReportChart> {
  const grouped = groupBy !== undefined;
  const x = (b: CurveBucket, curve: readonly CurveBucket[]) =>
    time ? (b.atMs - curve[0]!.atMs) / 1000 : position(b);
  const curves: ReportCurve[] = [];
  const without: string[] = [];
  const all: CurveBucket[] = [];
  for (const [of, member] of members.entries()) {
    const having = member.runs.filter(({ run_id }) => lists.get(run_id)!.has(name));
    const found = await inBatches(
      having,
      ({ run_id }) => reader.curve(run_id, name, BUCKETS, overwritten && !grouped),
    );
    if (having.length === 0) without.push(member.name);
    all.push(...found.flat());
    if (grouped) {
      const points = groupPoints(found, x, band).map(({ x, mean, low, high, runs }) => ({
        x,
        y: mean,
        low,
        high,
        runs,
      }));
      curves.push({ name: member.name, of, points, overwritten: false });
      continue;
    }
    for (const buckets of found) {
      const parts = Map.groupBy(buckets, (b) => b.overwritten ? b.attempt ?? 0 : -1);
      for (const [part, its] of parts) {
        const points = its.map((b) => ({ x: x(b, buckets), y: b.mean }));
        curves.push({ name: member.name, of, points, overwritten: part !== -1 });
      }
    }
  }
  const damaged = damagedPoints(all);
  return {
    title: name,
    x: time ? "seconds" : xLabel(name, all),
    caption: [
      ...(grouped ? [`Mean of a group's runs; band: ${BANDS[band]}.`] : []),
      ...(damaged > 0
        ? [`${count(damaged)} points are missing or damaged (mosaic doctor lists them).`]
        : []),
    ].join(" "),
    log,
    curves,
    without,
  };
}

/** `mosaic report` */
import { type Command, Option } from "commander";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { VERSION } from "../../base/version.ts";
import { type ComparisonRow, configDifferences } from "../../config/differences.ts";
import type { SeriesBucket, SeriesListResponse_Item } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { infoIfThere, writeFileAtomic } from "../../os/files.ts";
import { explainPath } from "../../permissions/missing.ts";
import { type Band, BANDS } from "../../telemetry/groups.ts";
import { manual } from "../verb_parser.ts";
import { isStandardOutput } from "../standard_streams.ts";
import { parameterDifferences, rowsWithoutSecrets } from "../comparing.ts";
import type { Context } from "../context.ts";
import { Link } from "../daemon_link.ts";
import { fetchRuns } from "../fetch_runs.ts";
import { connectionFlags, connectionOptions, repeated, RUN_ARGUMENT } from "../flags.ts";
import { bytes as sizeText, count, duration, localTime, number } from "../format.ts";
import { damagedPoints } from "../gaps.ts";
import { type RunDetailJson, runDetailJson } from "../message_json.ts";
import { valueText } from "../parameter_text.ts";
import { progressSeries } from "../../telemetry/progress_series.ts";
import type { ReportChart, ReportCurve } from "../report/chart.ts";
import {
  bandOption,
  commonText,
  GROUP_BY_HELP,
  GROUP_BY_OPTION,
  groupByOf,
  groupPoints,
  groupValue,
  inGroups,
  spreadText,
  statesText,
} from "../run_groups.ts";
import { elapsedMs, stepsOf } from "../runs_table.ts";
import { escapeControl } from "../text.ts";
import { position, requireSeries, xLabel } from "./plot.ts";

/** Bound on charts, unless metrics are named. */
const MOST_CHARTS = 24;
/** Points per curve: a chart is some 500 pixels wide. */
const BUCKETS = 400;
const AT_ONCE = 8;

export function define(command: Command, context: Context): void {
  command
    .description(
      "Writes a report of runs: one HTML file with their totals, curves, notes, parameters and differences, which opens " +
        "from disk without mosaic and without a network.",
    )
    .argument("[run...]", RUN_ARGUMENT)
    .option("--where <filter>", "matching runs, such as 'lr<1e-3 and env_id=CartPole-v1'")
    .option("-t, --tag <tag>", "runs with this tag (repeatable: with all of them)", repeated)
    .option(
      "-m, --metric <name>",
      `series to draw (repeatable; default: the first ${MOST_CHARTS} that runs have)`,
      repeated,
    )
    .option(GROUP_BY_OPTION, `one row and one curve a group, with its spread: ${GROUP_BY_HELP}`)
    .addOption(bandOption())
    .option("--log", "logarithmic y axis")
    .option("--time", "x axis: seconds since a curve's first point, instead of step or episode")
    .option("--overwritten", "also draw records that a later attempt, resumed from a checkpoint, recorded again")
    .option("--title <text>", "heading of the report (default: the names of the runs)")
    .addOption(new Option("--out <file>", "where to write it; -: standard output").default("mosaic-report.html"));
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        details:
          "Text values that look like secrets are hidden. Checkpoints, videos and logs are not in it: see mosaic " +
          "export --format mosaic.",
        examples: [
          ["mosaic report @last", "one run, to mosaic-report.html"],
          ["mosaic report -t sweep --group-by params --out sweep.html", "seeds as one curve"],
          ["mosaic report -t sweep -m policy_loss -m episode_reward", "two charts of each run"],
        ],
        exits: { 4: "no such run, no run that fits, or no such series" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const runs = await chosenRuns(link, refs, flags);
      const page = await reportText(link, context.now(), runs, flags);
      const file = String(flags["out"]);
      if (isStandardOutput(file)) {
        context.out.write(page);
        return;
      }
      try {
        const info = infoIfThere(file);
        // Renaming the page to this name would remove the device or pipe.
        if (info !== undefined && !info.isFile && !info.isDirectory && !info.isSymlink) {
          throw new MosaicError("invalid_argument", `${file}: this is a pipe or a device, not a file`, {
            hint: "Name a file, or - for standard output.",
          });
        }
        writeFileAtomic(file, page, { mode: 0o644 });
      } catch (error) {
        const known = explainPath(error, file);
        if (known instanceof MosaicError && known.code !== "not_found") throw known;
        if (known instanceof MosaicError) {
          throw new MosaicError("not_found", `${file}: its directory does not exist`, { cause: error });
        }
        throw new MosaicError("invalid_argument", `--out is "${file}", which cannot be written: ${messageOf(error)}`);
      }
      const size = sizeText(new TextEncoder().encode(page).length);
      context.out.write(
        `${escapeControl(file)}  ${count(runs.length)} ${runs.length === 1 ? "run" : "runs"}, ${size}\n`,
      );
    });
}

/** What a report reads with: a client's link or, inside the daemon, its own methods. */
export type ReportReader = Pick<Link, "unary" | "methods">;

/** @param flags as of `mosaic report` @throws `not_found` */
export async function reportOf(reader: ReportReader, now: number, ids: string[], flags: Record<string, unknown>) {
  return await reportText(reader, now, await details(reader, ids), flags);
}

async function reportText(reader: ReportReader, now: number, runs: RunDetailJson[], flags: Record<string, unknown>) {
  // Loaded here, because help needs neither templates nor Markdown.
  const { reportPage } = await import("../report/page.ts");
  return reportPage(await contents(reader, now, runs, flags));
}

async function details(link: ReportReader, refs: string[]): Promise<RunDetailJson[]> {
  const runs = await inBatches(refs, async (run) => runDetailJson(await link.unary(link.methods.getRun, { run })));
  return [...new Map(runs.map((run) => [run.run_id, run])).values()];
}

async function chosenRuns(link: Link, refs: string[], flags: Record<string, unknown>): Promise<RunDetailJson[]> {
  const [where, tags] = [flags["where"] as string | undefined, flags["tag"] as string[] | undefined];
  const found = [...refs];
  if (where !== undefined || tags !== undefined) {
    const listed = await fetchRuns(link, { where: where ?? "", tags: tags ?? [] });
    found.push(...listed.toReversed().map(({ run_id }) => run_id));
    if (found.length === 0) throw new MosaicError("not_found", "no run matches --where and --tag");
  }
  if (found.length === 0) {
    throw new MosaicError("invalid_argument", "name the runs that the report is about", {
      hint: "By id, name or @last, or by --where or --tag.",
    });
  }
  return await details(link, found);
}

/** Some at a time; results in order. */
async function inBatches<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    results.push(...await Promise.all(items.slice(at, at + AT_ONCE).map(work)));
  }
  return results;
}

/** One curve of the report: a run, or runs that are drawn as one. */
interface Member {
  name: string;
  runs: RunDetailJson[];
}

type Item = SeriesListResponse_Item;

async function contents(link: ReportReader, now: number, runs: RunDetailJson[], flags: Record<string, unknown>) {
  const lists = new Map<string, Map<string, Item>>();
  for (
    const [i, { series }]
      of (await inBatches(runs, ({ run_id }) => link.unary(link.methods.listSeries, { run: run_id })))
        .entries()
  ) {
    lists.set(runs[i]!.run_id, new Map(series.filter(({ points }) => points > 0n).map((s) => [s.name, s])));
  }
  const by = flags["groupBy"] as string | undefined;
  const members: Member[] = by === undefined
    ? runs.map((run) => ({ name: named(run, runs), runs: [run] }))
    : inGroups(runs, (run) => run, groupByOf(by)).map(({ name, members }) => ({ name, runs: members }));
  const known = [...new Set([...lists.values()].flatMap((list) => [...list.keys()]))].sort((a, b) =>
    a.localeCompare(b)
  );
  const requested = flags["metric"] as string[] | undefined;
  requireSeries(requested ?? [], known);
  const main = progressSeries(known.map((name) => ({ name, points: 1n })));
  // The most significant first; the machine's own last; the "reward" of steps after that of episodes.
  const weight = (name: string) => name === main ? 0 : name.startsWith("system/") ? 3 : name === "reward" ? 2 : 1;
  const ordered = known.toSorted((a, b) => weight(a) - weight(b));
  const drawn = requested ?? ordered.slice(0, MOST_CHARTS);
  const options = {
    band: flags["band"] as Band,
    time: flags["time"] === true,
    overwritten: flags["overwritten"] === true,
  };
  const charts: ReportChart[] = [];
  for (const name of drawn) {
    charts.push(
      await chartOf(link, name, members, lists, { ...options, grouped: by !== undefined, log: flags["log"] === true }),
    );
  }
  const leftOut: string[] = [];
  if (requested === undefined && known.length > drawn.length) {
    const rest = ordered.slice(MOST_CHARTS).join(", ");
    leftOut.push(`The curves of ${known.length - drawn.length} series: ${rest}. -m NAME draws one.`);
  }
  leftOut.push("Logs, single records, and artifacts such as checkpoints and videos.");
  const grouped = by !== undefined;
  const column = (of: (run: RunDetailJson) => string) => members.map((m) => commonText(m.runs.map(of)));
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
    title: String(flags["title"] ?? titleOf(names)),
    about: [
      `${runs.length} ${runs.length === 1 ? "run" : "runs"}`,
      ...(grouped
        ? [`${members.length} groups by ${by}`, `values are mean ± standard deviation of a group's runs`]
        : []),
    ].join(", ") + ".",
    made:
      `Made by mosaic ${VERSION} on ${localTime(now)} (${zone()}). Each point of a curve is the mean of a range of ` +
      `at most ${BUCKETS} ranges; the tables behind the charts have some of them.`,
    curves: names,
    overview: overview(members, main, lists, now),
    notes: runs.filter(({ notes }) => notes !== "").map((run) => ({ run: named(run, runs), text: run.notes })),
    charts,
    tables: [
      {
        title: "Last value of each series",
        head: ["series", ...names],
        rows: figures(known, members, lists, ({ last }) => last),
      },
      { title: "Parameters that differ", head: ["parameter", ...names], rows: parameters },
      { title: "Parameters that all share", head: ["parameter", "value"], rows: inAll },
      { title: "Differences of the configs", head: ["field", ...names], rows: configs },
    ],
    leftOut,
  };
}

/** With a part of its id if another run has the same name. */
function named({ name, run_id }: RunDetailJson, runs: readonly RunDetailJson[]): string {
  return runs.filter((run) => run.name === name).length > 1 ? `${name} (${run_id.slice(0, 10)})` : name;
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
  lists: Map<string, Map<string, Item>>,
  now: number,
) {
  const spread = ({ runs }: Member, of: (run: RunDetailJson) => number | null | undefined, text = number) =>
    runs.length === 1
      ? (of(runs[0]!) === null || of(runs[0]!) === undefined ? "" : text(of(runs[0]!)!))
      : spreadText(groupValue(runs.map(of)), runs.length);
  const item = (run: RunDetailJson) => main === undefined ? undefined : lists.get(run.run_id)!.get(main);
  const several = members.some(({ runs }) => runs.length > 1);
  const ofMain = main === undefined ? [] : [`${main}, last`, `${main}, smallest`, `${main}, largest`];
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
        member.runs.length === 1 ? member.runs[0]!.state : statesText(member.runs.map(({ state }) => state)),
        firstStart(member.runs),
        spread(member, (run) => {
          const ms = elapsedMs(run, now);
          return ms === null ? null : ms / 1000;
        }, (seconds) => duration(seconds * 1000)),
        spread(member, stepsOf, count),
        spread(member, (run) => run.telemetry.episodes, count),
        ...(main === undefined ? [] : [
          spread(member, (run) => item(run)?.last),
          spread(member, (run) => item(run)?.min),
          spread(member, (run) => item(run)?.max),
        ]),
      ],
    })),
  };
}

function firstStart(runs: readonly RunDetailJson[]): string {
  const starts = runs.flatMap(({ started_at }) => started_at === null ? [] : [Date.parse(started_at)]);
  return starts.length === 0 ? "" : localTime(Math.min(...starts));
}

function figures(
  names: readonly string[],
  members: readonly Member[],
  lists: Map<string, Map<string, Item>>,
  of: (item: Item) => number | undefined,
): ComparisonRow[] {
  return names.map((name) => ({
    name,
    values: members.map(({ runs }) => {
      const values = runs.map(({ run_id }) => {
        const item = lists.get(run_id)!.get(name);
        return item === undefined ? undefined : of(item);
      });
      if (runs.length > 1) return spreadText(groupValue(values), runs.length);
      return values[0] === undefined ? "" : number(values[0]);
    }),
  }));
}

/** Parameters with the same value in all runs; for a single run, all of its parameters. */
function sharedParameters(runs: readonly RunDetailJson[]): ComparisonRow[] {
  const [first, ...others] = runs.map(({ parameters }) =>
    new Map(parameters.map(({ name, value }) => [name, valueText(value)]))
  );
  return [...first!].filter(([name, value]) => others.every((other) => other.get(name) === value))
    .map(([name, value]) => ({ name, values: [value] }));
}

async function chartOf(
  link: ReportReader,
  name: string,
  members: readonly Member[],
  lists: Map<string, Map<string, Item>>,
  { grouped, band, time, overwritten, log }: {
    grouped: boolean;
    band: Band;
    time: boolean;
    overwritten: boolean;
    log: boolean;
  },
): Promise<ReportChart> {
  const x = (b: SeriesBucket, curve: readonly SeriesBucket[]) => time ? (b.atMs - curve[0]!.atMs) / 1000 : position(b);
  const curves: ReportCurve[] = [];
  const without: string[] = [];
  const all: SeriesBucket[] = [];
  for (const [of, member] of members.entries()) {
    const having = member.runs.filter(({ run_id }) => lists.get(run_id)!.has(name));
    const found = await inBatches(having, async ({ run_id: run }) => {
      const request = { run, name, buckets: BUCKETS, fromX: 0n, toX: 0n, overwritten: overwritten && !grouped };
      return (await link.unary(link.methods.getSeries, request)).buckets;
    });
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
      ...(damaged > 0 ? [`${count(damaged)} points are missing or damaged (mosaic doctor lists them).`] : []),
    ].join(" "),
    log,
    curves,
    without,
  };
}

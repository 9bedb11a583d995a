/** `mosaic plot` */
import type { Command } from "commander";
import type { z } from "zod";
import { MosaicError } from "../../../base/errors.ts";
import type { Run, SeriesBucket } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import { plot, type Series } from "../../text/chart.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT } from "../../link/exit.ts";
import { count } from "../../../base/text/format.ts";
import { warnOfDamagedPoints } from "../../link/gaps.ts";
import { position, requireSeries, xLabel } from "../../../runs/curves.ts";
import {
  connectionFlags,
  connectionOptions,
  type Format,
  outputOption,
  RUN_ARGUMENT,
  wholeNumber,
} from "../../verb/flags.ts";
import { hasEnded } from "../../link/following.ts";
import { interruptible } from "../../link/interrupt.ts";
import { pause } from "../../../wire/http/waiting.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Bucket } from "../../../registry/contract.ts";
import { BUCKET_COLUMNS } from "../../../records/stored.ts";
import { EPISODE_REWARD, progressSeries } from "../../../records/progress_series.ts";
import { type Band, BANDS } from "../../../telemetry/series/groups.ts";
import { fetchRuns } from "../../link/fetch_runs.ts";
import {
  bandOption,
  columnFor,
  GROUP_BY_HELP,
  GROUP_BY_OPTION,
  groupable,
  groupSeries,
} from "../../verb/group_by.ts";
import { groupByOf, groupPoints, inGroups } from "../../../runs/run_groups.ts";
import { csv } from "../../../base/text/csv_text.ts";
import { escapeControl } from "../../text/text.ts";

/** Further series that are named in a message. */
const MOST_NAMED = 12;
const WATCH_PAUSE_MS = 2000;

type BucketJson = z.infer<typeof Bucket>;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Plots a series of a run: episode_reward, episode_length, reward, or any metric (mosaic metrics RUN lists them). " +
        "Without a name: episode_reward, else the metric that says most about training (a return, a score, a loss), " +
        "and the others' names on standard error. Each point is the mean of a range, so that a series of any length fits.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .argument("[metric]", "series (default: the one that shows how training goes)")
    .option("--width <columns>", "width of the plot (default: the terminal's)", wholeNumber(20))
    .option(
      "--height <rows>",
      "height of the plot (default: two thirds of the terminal's)",
      wholeNumber(6),
    )
    .option("--log", "logarithmic y axis")
    .option("--time", "x axis: seconds since the first point, instead of step or episode")
    .option("--from <x>", "first step or episode", wholeNumber())
    .option("--to <x>", "last step or episode", wholeNumber())
    .option(
      "--overwritten",
      "also plot records that a later attempt, resumed from a checkpoint, recorded again",
    )
    .option(GROUP_BY_OPTION, `the group that the run belongs to, as one curve: ${GROUP_BY_HELP}`)
    .addOption(bandOption())
    .option("-w, --watch", "refresh every two seconds until the run has ended");
  connectionOptions(outputOption(command, ["table", "json", "csv"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic plot @last", "how training goes"],
          ["mosaic plot @last policy_loss --log --watch", "a metric, live"],
          ["mosaic plot @last --group-by name --band ci95", "all its seeds as one curve"],
          ["mosaic plot @last -o csv", "the plotted values"],
        ],
        exits: { 4: "no such run, or no such series" },
      }),
    )
    .action(async (ref: string, given: string | undefined, flags: Record<string, unknown>) => {
      const watch = flags["watch"] === true;
      const { from, to } = flags as { from?: number; to?: number };
      if (from !== undefined && to !== undefined && to > 0 && from > to) {
        throw new MosaicError("invalid_argument", `--from ${from} is above --to ${to}`);
      }
      let name = given;
      const reported = new Set<string>();
      result.code = await interruptible(context, "", async (signal) => {
        using link = await Link.open(context, connectionFlags(flags), {
          retryMs: watch ? 60_000 : 0,
        });
        for (;;) {
          const run = await link.unary(link.methods.getRun, { run: ref }, signal);
          const width = Number(flags["width"] ?? Math.min(context.terminal.width, 160));
          name ??= await chosenSeries(link, context, run, signal);
          const drawn = name ?? EPISODE_REWARD;
          const read = async (id: string) => {
            const buckets = await fetchSeries(link, id, drawn, {
              buckets: width * 2,
              from: Number(flags["from"] ?? 0),
              to: Number(flags["to"] ?? 0),
              overwritten: flags["overwritten"] === true && flags["groupBy"] === undefined,
            });
            warnOfDamagedPoints(context, { runId: id, series: drawn }, buckets, reported);
            return buckets;
          };
          const text = flags["groupBy"] === undefined
            ? render(await read(run.runId), flags, context, {
              width,
              name: drawn,
              title: `${run.name}  ${drawn}`,
            })
            : await renderGroup(link, context, flags, { run, width, name: drawn, read });
          if (watch && context.terminal.isTty) context.out.move("screen");
          context.out.write(text);
          if (!watch || hasEnded(run, 0)) return EXIT.ok;
          await pause(WATCH_PAUSE_MS, signal);
          if (signal.aborted) return EXIT.ok;
        }
      });
    });
}

/** Also prints which other series exist. @returns undefined while no series has a point */
async function chosenSeries(
  link: Link,
  context: Context,
  { runId, telemetry }: Pick<Run, "runId" | "telemetry">,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { series } = await link.unary(link.methods.listSeries, { run: runId }, signal);
  const chosen = progressSeries(series, [telemetry?.objective?.name]);
  const others = series.filter(({ name, points }) => name !== chosen && points > 0n).map((
    { name },
  ) => name);
  if (chosen === undefined || chosen === EPISODE_REWARD || others.length === 0) return chosen;
  const more = others.length > MOST_NAMED
    ? ` and ${others.length - MOST_NAMED} more (mosaic metrics ${runId})`
    : "";
  context.err.write(
    `mosaic: drawn is ${escapeControl(chosen)}; there are also ${
      others.slice(0, MOST_NAMED).map(escapeControl).join(", ")
    }${more}\n`,
  );
  return chosen;
}

function render(
  buckets: SeriesBucket[],
  flags: Record<string, unknown>,
  { terminal }: Context,
  { width, name, title }: { width: number; name: string; title: string },
): string {
  const rows = buckets.map(bucketJson);
  const format = flags["output"] as Format;
  if (format === "json") return `${JSON.stringify(rows, null, 2)}\n`;
  if (format === "csv") {
    return csv([...BUCKET_COLUMNS], rows.map((row) => BUCKET_COLUMNS.map((name) => row[name])));
  }
  const start = buckets[0]?.atMs ?? 0;
  const time = flags["time"] === true;
  const x = (b: SeriesBucket) => time ? (b.atMs - start) / 1000 : position(b);
  return plot(linesOf(name, buckets, x), {
    width,
    height: Number(flags["height"] ?? Math.max(10, Math.floor((terminal.height * 2) / 3))),
    color: terminal.color,
    title: `${title}${nonFiniteText(buckets)}`,
    xLabel: time ? "seconds" : xLabel(name, buckets),
    log: flags["log"] === true,
  });
}

/** The runs of the run's group that have the series, as one curve. */
async function renderGroup(
  link: Link,
  { terminal }: Context,
  flags: Record<string, unknown>,
  { run, width, name, read }: {
    run: Pick<Run, "runId">;
    width: number;
    name: string;
    read(runId: string): Promise<SeriesBucket[]>;
  },
): Promise<string> {
  const by = groupByOf(String(flags["groupBy"]));
  const column = columnFor(by);
  const all = await fetchRuns(link, { columns: column === undefined ? [] : [column] });
  const group = inGroups(all, (one) => groupable(one, by), by)
    .find(({ members }) => members.some(({ run_id }) => run_id === run.runId));
  if (group === undefined) {
    throw new MosaicError("not_found", `run ${run.runId} is no longer there`);
  }
  const curves: SeriesBucket[][] = [];
  for (const { run_id } of group.members) {
    try {
      const buckets = await read(run_id);
      if (buckets.length > 0) curves.push(buckets);
    } catch (error) {
      // Another run of the group may lack the series, or may have been deleted.
      if (run_id === run.runId || !(error instanceof MosaicError) || error.code !== "not_found") {
        throw error;
      }
    }
  }
  const band = flags["band"] as Band;
  const time = flags["time"] === true;
  const x = (b: SeriesBucket, curve: readonly SeriesBucket[]) =>
    time ? (b.atMs - curve[0]!.atMs) / 1000 : position(b);
  const points = groupPoints(curves, x, band);
  const format = flags["output"] as Format;
  if (format === "json") return `${JSON.stringify(points, null, 2)}\n`;
  if (format === "csv") {
    const fields = ["x", "mean", "low", "high", "runs"] as const;
    return csv(fields, points.map((point) => fields.map((f) => point[f])));
  }
  return plot([groupSeries(group.name, points)], {
    width,
    height: Number(flags["height"] ?? Math.max(10, Math.floor((terminal.height * 2) / 3))),
    color: terminal.color,
    title: `${group.name}  ${name}  ${curves.length} of ${group.members.length} runs, ${
      BANDS[band]
    }`,
    xLabel: time ? "seconds" : xLabel(name, curves.flat()),
    log: flags["log"] === true,
  });
}

/** The run's curve, and one for the overwritten part of each attempt. */
export function linesOf(
  name: string,
  buckets: readonly SeriesBucket[],
  x: (b: SeriesBucket) => number = position,
): Series[] {
  const lines = Map.groupBy(
    buckets,
    (b) => b.overwritten ? `${name}, overwritten of attempt ${b.attempt}` : name,
  );
  return [...lines].map(([name, buckets]) => ({
    name,
    points: buckets.map((b) => ({ x: x(b), y: b.mean })),
  }));
}

/** How many points of the range are on no curve, because a bucket counts only finite ones. */
function nonFiniteText(buckets: readonly SeriesBucket[]): string {
  const whole = buckets.filter(({ damaged }) => !damaged);
  const n = whole.reduce(
    (sum, { firstX, lastX, count }) => sum + Number(lastX - firstX + 1n - count),
    0,
  );
  return n > 0 ? `  (${count(n)} ${n === 1 ? "point is" : "points are"} NaN or infinite)` : "";
}

function bucketJson(b: SeriesBucket): BucketJson {
  return {
    first_x: Number(b.firstX),
    last_x: Number(b.lastX),
    min: b.min,
    max: b.max,
    mean: b.mean,
    last: b.last,
    count: Number(b.count),
    at: new Date(b.atMs).toISOString(),
    step: b.step ?? null,
    attempt: b.attempt ?? null,
    overwritten: b.overwritten,
  };
}

/**
 * A run's series.
 * @param options `from` and `to` are steps or episodes; 0: no limit. `overwritten`: also points
 * that later attempts wrote
 *   again
 * @throws {MosaicError} `not_found` with a suggestion if the run has no such series
 */
export async function fetchSeries(
  link: Link,
  run: string,
  name: string,
  { buckets, from = 0, to = 0, overwritten = false }: {
    buckets: number;
    from?: number;
    to?: number;
    overwritten?: boolean;
  },
): Promise<SeriesBucket[]> {
  const { series } = await link.unary(link.methods.listSeries, { run });
  const known = series.map((s) => s.name);
  // Every run may have these three, empty before the first episode; any other series must exist.
  if (!["reward", EPISODE_REWARD, "episode_length"].includes(name)) requireSeries([name], known);
  const read = async (fromX: bigint, toX: bigint) =>
    (await link.unary(link.methods.getSeries, { run, name, buckets, fromX, toX, overwritten }))
      .buckets;
  if (from === 0 && to === 0) return await read(0n, 0n);
  // The daemon selects by point number. For a metric, find the points' steps from the whole series
  // first.
  const whole = await read(0n, 0n);
  if (whole.every((b) => b.step === undefined)) return await read(BigInt(from), BigInt(to));
  const upper = to === 0 ? Infinity : to;
  const wanted = whole.filter((b, i) =>
    position(b) >= from &&
    (b.firstX < b.lastX ? Math.min(position(whole[i - 1] ?? b), position(b)) : position(b)) <= upper
  );
  if (wanted.length === 0) return [];
  const found = await read(wanted[0]!.firstX, wanted.at(-1)!.lastX);
  return found.filter((b) => position(b) >= from && position(b) <= upper);
}

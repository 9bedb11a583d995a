/** `mosaic compare` */
import type { Command } from "commander";
import { plot, type Series } from "../../text/chart.ts";
import { manual } from "../../verb/verb_parser.ts";
import { type ComparisonRow, configDifferences } from "../../../config/differences.ts";
import { groupFigures, summaryRows } from "../../text/comparing.ts";
import { parameterDifferences, rowsWithoutSecrets } from "../../../runs/run_differences.ts";
import type { Context } from "../../link/context.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { number } from "../../../base/text/format.ts";
import { warnOfDamagedPoints } from "../../link/gaps.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import type { RunDetailJson } from "../../../runs/fields/run_types.ts";
import { Link } from "../../link/daemon_link.ts";
import { valueText } from "../../../runs/parameter_text.ts";
import { table } from "../../text/table.ts";
import { escapeControl, paint } from "../../text/text.ts";
import { EPISODE_REWARD, progressSeries } from "../../../records/progress_series.ts";
import { type Band, BANDS } from "../../../telemetry/series/groups.ts";
import { bandOption, GROUP_BY_HELP, GROUP_BY_OPTION, groupSeries } from "../../verb/group_by.ts";
import {
  commonText,
  groupByOf,
  groupPoints,
  type GroupValue,
  groupValue,
  inGroups,
  spreadText,
  statesText,
} from "../../../runs/run_groups.ts";
import { fetchSeries, linesOf } from "../telemetry/plot.ts";
import { position, xLabel } from "../../../runs/curves.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Compares runs: totals, the last value of every metric, the differences between their parameters and configs, and a plot of one " +
        "series of each run.",
    )
    .argument("<run...>", RUN_ARGUMENT)
    .option("-m, --metric <name>", "series to plot (default: the one that shows how training goes)")
    .option(
      "--overwritten",
      "also plot records that a later attempt, resumed from a checkpoint, recorded again",
    )
    .option(GROUP_BY_OPTION, `one column and one curve a group, with its spread: ${GROUP_BY_HELP}`)
    .addOption(bandOption())
    .option("--no-plot", "do not plot");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic compare cart-lr-3e-3 cart-lr-1e-2", "two runs by their names"],
          ["mosaic compare $(mosaic list -q -t sweep) -m policy_loss", "all runs of a sweep"],
          ["mosaic compare $(mosaic list -q -t sweep) --group-by params", "seeds as one curve"],
        ],
        exits: { 4: "no such run, or no such series" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const runs: RunDetailJson[] = [];
      for (const run of refs) {
        runs.push(runDetailJsonOf(await link.unary(link.methods.getRun, { run })));
      }
      const metrics = await lastMetrics(link, runs);
      // The metrics that most runs have.
      const common = metrics.filter(({ last }) => last.every((value) => value !== null));
      const chosen = runs.map(({ telemetry }) => telemetry.objective?.name);
      const name = String(
        flags["metric"] ?? progressSeries(common, chosen) ?? progressSeries(metrics, chosen) ??
          EPISODE_REWARD,
      );
      if (typeof flags["groupBy"] === "string") {
        await compareGroups(link, context, flags, { runs, metrics, drawn: name });
        return;
      }
      const differences = configDifferences(runs);
      const parameters = parameterDifferences(runs);
      if (flags["output"] === "json") {
        const byName = (rows: ComparisonRow[]) =>
          Object.fromEntries(rows.map((r) => [r.name, r.values]));
        const metricsJson = Object.fromEntries(metrics.map(({ name, last }) => [name, last]));
        context.out.write(
          `${
            JSON.stringify(
              {
                runs,
                parameters: Object.fromEntries(
                  parameters.map(({ name, values }) => [name, values]),
                ),
                metrics: metricsJson,
                config: byName(differences),
              },
              (_, value) => value === undefined ? null : value,
              2,
            )
          }\n`,
        );
        return;
      }
      const { color, width, height } = context.terminal;
      const print = tables(context, runs.map(({ name }) => name));
      print("Figures", [
        { name: "run", values: runs.map((r) => r.run_id) },
        ...summaryRows(runs, context.now()),
      ]);
      print(
        "Last value of each metric",
        metrics.map(({ name, last }) => ({
          name,
          values: last.map((v) => v === null ? "" : number(v)),
        })),
      );
      print(
        "Parameters",
        parameters.map(({ name, values }) => ({ name, values: values.map(valueText) })),
      );
      print("Config", rowsWithoutSecrets(differences));
      if (flags["plot"] === false) return;
      const series: Series[] = [];
      const reported = new Set<string>();
      let label = "";
      for (const run of runs) {
        // Plot the runs that have the series; warn about those that do not.
        if (metrics.find((m) => m.name === name)?.last[runs.indexOf(run)] === null) {
          context.err.write(
            `mosaic: ${run.run_id} (${escapeControl(run.name)}) has no series "${
              escapeControl(name)
            }"\n`,
          );
          continue;
        }
        const buckets = await fetchSeries(link, run.run_id, name, {
          buckets: width * 2,
          overwritten: flags["overwritten"] === true,
        });
        warnOfDamagedPoints(context, { runId: run.run_id, series: name }, buckets, reported);
        label = xLabel(name, buckets);
        series.push(...linesOf(run.name, buckets));
      }
      context.out.write(plot(series, {
        width: Math.min(width, 160),
        height: Math.max(10, Math.floor(height / 2)),
        color,
        title: name,
        xLabel: label,
      }));
    });
}

/** Prints a table with one row per value and one column per run or group; nothing without rows. */
function tables(
  { out, terminal }: Context,
  names: readonly string[],
): (title: string, rows: ComparisonRow[]) => void {
  const { color, width, isTty } = terminal;
  return (title, rows) => {
    if (rows.length === 0) return;
    out.write(`${paint(title, "bold", color)}\n`);
    out.write(table<ComparisonRow>(
      [
        { name: " ", shrinkTo: 12, text: (r) => r.name },
        ...names.map((name, i) => ({
          name,
          heading: name,
          shrinkTo: 10,
          text: (r: ComparisonRow) => r.values[i]!,
        })),
      ],
      rows,
      { width: isTty ? width : undefined, color },
    ));
    out.write("\n");
  };
}

/**
 * `--group-by`: one column per group; each value is the mean and standard deviation of the group's
 * runs.
 */
async function compareGroups(
  link: Link,
  context: Context,
  flags: Record<string, unknown>,
  { runs, metrics, drawn }: {
    runs: readonly RunDetailJson[];
    metrics: readonly { name: string; last: (number | null)[] }[];
    drawn: string;
  },
): Promise<void> {
  const groups = inGroups(runs, (run) => run, groupByOf(String(flags["groupBy"])));
  const spread = (of: (run: RunDetailJson) => number | null) =>
    groups.map(({ members }) => groupValue(members.map(of)));
  const last = metrics.map(({ name, last }) => ({
    name,
    values: spread((run) => last[runs.indexOf(run)]!),
  }));
  const figures = groupFigures(context.now()).map((one) => ({ ...one, values: spread(one.of) }));
  const parameters = parameterDifferences(runs).map(({ name, values }) => ({
    name,
    values: groups.map(({ members }) =>
      commonText(members.map((run) => valueText(values[runs.indexOf(run)])))
    ),
  }));
  const { color, width, height } = context.terminal;
  const curves = await Promise.all(groups.map(async ({ name, members }) => {
    const having = members.filter((run) =>
      metrics.find((m) => m.name === drawn)?.last[runs.indexOf(run)] !== null
    );
    const buckets = await Promise.all(
      having.map(async ({ run_id }) => {
        const buckets = await fetchSeries(link, run_id, drawn, {
          buckets: width * 2,
          overwritten: false,
        });
        warnOfDamagedPoints(context, { runId: run_id, series: drawn }, buckets, new Set());
        return buckets;
      }),
    );
    return { name, buckets, points: groupPoints(buckets, position, flags["band"] as Band) };
  }));
  if (flags["output"] === "json") {
    const byName = <T>(rows: readonly { name: string; values: T }[]) =>
      Object.fromEntries(rows.map(({ name, values }) => [name, values]));
    const json = {
      groups: groups.map(({ name, members }) => ({ name, runs: members.map((r) => r.run_id) })),
      figures: byName(figures),
      metrics: byName(last),
      parameters: byName(parameters),
      curves: curves.map(({ name, points }) => ({ name, points })),
    };
    context.out.write(`${JSON.stringify(json, null, 2)}\n`);
    return;
  }
  const print = tables(context, groups.map(({ name }) => name));
  const texts = (
    { name, label = name, values, text }: {
      name: string;
      label?: string;
      values: (GroupValue | null)[];
      text?: (value: number) => string;
    },
  ) => ({
    name: label,
    values: values.map((value, i) => spreadText(value, groups[i]!.members.length, text)),
  });
  print("Figures, mean ± standard deviation", [
    { name: "runs", values: groups.map(({ members }) => String(members.length)) },
    {
      name: "states",
      values: groups.map(({ members }) => statesText(members.map((r) => stateWord(r.state)))),
    },
    ...figures.map((one) => texts(one)),
  ]);
  print("Last value of each metric", last.map((one) => texts(one)));
  print("Parameters", parameters);
  if (flags["plot"] === false) return;
  context.out.write(plot(curves.map(({ name, points }) => groupSeries(name, points)), {
    width: Math.min(width, 160),
    height: Math.max(10, Math.floor(height / 2)),
    color,
    title: `${drawn}, ${BANDS[flags["band"] as Band]}`,
    xLabel: xLabel(drawn, curves.flatMap(({ buckets }) => buckets.flat())),
  }));
}

/** Each metric's last value in each run; null if a run has none. */
async function lastMetrics(
  link: Link,
  runs: readonly RunDetailJson[],
): Promise<{ name: string; last: (number | null)[]; points: bigint }[]> {
  const found = new Map<string, { last: (number | null)[]; points: bigint }>();
  for (const [i, run] of runs.entries()) {
    const { series } = await link.unary(link.methods.listSeries, { run: run.run_id });
    for (const { name, last, points } of series) {
      if (!found.has(name)) found.set(name, { last: runs.map(() => null), points: 0n });
      const metric = found.get(name)!;
      metric.last[i] = last ?? null;
      metric.points += points;
    }
  }
  return [...found].map(([name, metric]) => ({ name, ...metric })).sort((a, b) =>
    a.name.localeCompare(b.name)
  );
}

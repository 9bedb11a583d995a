/** `mosaic metrics` */
import type { Command } from "commander";
import type { z } from "zod";
import { sparkline } from "../../text/chart.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, type Format, RUN_ARGUMENT } from "../../verb/flags.ts";
import { count, number } from "../../../base/text/format.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Series } from "../../../registry/contract.ts";
import { csv } from "../../../base/text/csv_text.ts";
import { type Column, table } from "../../text/table.ts";
import { printTelemetry, telemetryOptions } from "../../verb/telemetry_verb.ts";
import { requireSeries } from "../../../runs/curves.ts";

const SPARK_WIDTH = 24;

type SeriesJson = z.infer<typeof Series>;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Lists a run's series (rewards, lengths of episodes, every numeric field of its records), or prints the points of " +
        "its metrics. Without --since, --limit or --tail a table shows the newest 20 points; the other formats " +
        "print all.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .argument("[name...]", "only these series")
    .option(
      "--sources",
      "list what wrote each series, and the less exact copies by other sources, which are not listed otherwise",
    )
    .option("--points", "print the points; implied by --follow, --since, --limit and --tail");
  telemetryOptions(command, context)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic metrics @last", "each series with its last value and its curve"],
          ["mosaic metrics @last policy_loss --points -o csv", "the points of one series"],
          ["mosaic metrics @last --sources", "which files and prints a series was read from"],
          ["mosaic plot @last policy_loss", "draw it"],
        ],
        exits: {
          4: "no such run, or no such series",
          130: "interrupted by Ctrl-C; the run continues",
        },
      }),
    )
    .action(async (run: string, names: string[], flags: Record<string, unknown>) => {
      if (
        ["points", "follow", "since", "limit", "tail"].some((flag) => flags[flag] !== undefined)
      ) {
        // With --follow a series may appear later.
        if (flags["follow"] !== true) await checkNames(context, run, names, flags);
        const where = names.length === 0 ? {} : {
          where: (record: Record<string, unknown>) => names.includes(String(record["name"])),
        };
        result.code = await printTelemetry(context, { run, kind: "metrics", ...where }, flags);
        return;
      }
      const sources = flags["sources"] === true;
      using link = await Link.open(context, connectionFlags(flags));
      const { series } = await link.unary(link.methods.listSeries, { run, sources });
      requireSeries(names, series.map((s) => s.name));
      const found: SeriesJson[] = series
        .map((s) => ({
          name: s.name,
          points: Number(s.points),
          non_finite: Number(s.nonFinite),
          last: s.last ?? null,
          min: s.min ?? null,
          max: s.max ?? null,
          mean: s.mean ?? null,
          min_step: s.minStep === undefined ? null : Number(s.minStep),
          max_step: s.maxStep === undefined ? null : Number(s.maxStep),
          source: s.source || "stdout",
          copy_of: s.copyOf || null,
        }))
        .filter((s) =>
          names.length === 0 || names.includes(s.copy_of ?? s.name) || names.includes(s.name)
        );
      const format = flags["output"] as Format;
      if (format === "json") context.out.write(`${JSON.stringify(found, null, 2)}\n`);
      else if (format === "jsonl") {
        context.out.write(found.map((s) => `${JSON.stringify(s)}\n`).join(""));
      } else if (format === "csv") {
        const figures = [
          "points",
          "non_finite",
          "last",
          "min",
          "max",
          "mean",
          "min_step",
          "max_step",
        ] as const;
        const fields = ["name", ...figures, "source", "copy_of"] as const;
        context.out.write(csv(fields, found.map((s) => fields.map((field) => s[field]))));
      } else if (found.length === 0) context.out.write("No series.\n");
      else {
        const curves = new Map<string, string>();
        for (const { name } of found) {
          const { buckets } = await link.unary(link.methods.getSeries, {
            run,
            name,
            buckets: SPARK_WIDTH,
          });
          curves.set(name, sparkline(buckets.map((b) => b.mean), SPARK_WIDTH));
        }
        context.out.write(table<SeriesJson>(
          [
            { name: "series", shrinkTo: 16, text: (s) => s.name },
            ...(sources ? SOURCE : []),
            { name: "points", align: "right", text: (s) => count(s.points) },
            ...(found.some((s) => s.non_finite > 0) ? [NON_FINITE] : []),
            figure("last", (s) => s.last),
            figure("min", (s) => s.min),
            figure("max", (s) => s.max),
            { name: "curve", text: (s) => curves.get(s.name)!, style: () => "green" },
          ],
          found,
          {
            width: context.terminal.isTty ? context.terminal.width : undefined,
            color: context.terminal.color,
          },
        ));
      }
    });
}

const SOURCE: Column<SeriesJson>[] = [
  { name: "source", shrinkTo: 12, text: (s) => s.source },
  { name: "copy of", shrinkTo: 12, text: (s) => s.copy_of ?? "", style: () => "dim" },
];

const NON_FINITE: Column<SeriesJson> = {
  name: "NaN, inf",
  align: "right",
  text: (s) => s.non_finite === 0 ? "" : count(s.non_finite),
  style: () => "red",
};

function figure(name: string, value: (series: SeriesJson) => number | null): Column<SeriesJson> {
  return {
    name,
    align: "right",
    text: (s) => {
      const n = value(s);
      return n === null ? "" : number(n);
    },
  };
}

async function checkNames(
  context: Context,
  run: string,
  names: readonly string[],
  flags: Record<string, unknown>,
): Promise<void> {
  if (names.length === 0) return;
  using link = await Link.open(context, connectionFlags(flags));
  const { series } = await link.unary(link.methods.listSeries, { run });
  requireSeries(names, series.map((s) => s.name));
}

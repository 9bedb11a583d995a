/** `mosaic sweep list` and `mosaic sweep show` */
import { type Command, Option } from "commander";
import { csv } from "../../../base/text/csv_text.ts";
import type { SweepJson } from "../../../sweeps/summary.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { pointRows, sweepsTable, sweepText, trialRows } from "../../text/sweep_text.ts";

type Flags = Record<string, unknown>;
const ALL_TRIALS = 10_000;

export function showVerbs(
  parent: Command,
  context: Context,
  result: { code: number },
  positive: (text: string) => number,
): void {
  const list = parent.command("list").description("Lists sweeps, newest first.")
    .option("--limit <n>", "maximum number of sweeps", positive, 100);
  connectionOptions(outputOption(list, ["table", "json"]))
    .addHelpText("after", manual({ examples: [["mosaic sweep list", "names, states and progress"]] }))
    .action(async (flags: Flags) => {
      using link = await Link.open(context, connectionFlags(flags));
      const { sweeps } = await link.unary(link.methods.listSweeps, { limit: flags["limit"] as number });
      const found = sweeps.map(({ json }) => JSON.parse(json) as SweepJson);
      context.out.write(
        flags["output"] === "json"
          ? `${JSON.stringify(found, null, 2)}\n`
          : found.length === 0
          ? ""
          : sweepsTable(found, context.terminal),
      );
      result.code = 0;
    });

  const show = parent.command("show").description(
    "Shows a sweep: the best so far, each point with its mean and 95 % interval over seeds, what was stopped early and " +
      "why, what that saved, and the best trial's command line.",
  )
    .argument("[sweep]", "name or id of the sweep, or @last", "@last")
    .addOption(
      oneOf(new Option("--table <rows>", "rows of CSV: points, or each trial").default("points"), ["points", "trials"]),
    );
  connectionOptions(outputOption(show, ["table", "json", "csv"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic sweep show ppo", "the whole picture"],
          ["mosaic sweep show ppo -o csv --table trials > trials.csv", "every trial with its parameters and value"],
        ],
        exits: { 4: "no such sweep" },
      }),
    )
    .action(async (sweep: string, flags: Flags) => {
      using link = await Link.open(context, connectionFlags(flags));
      const answer = await link.unary(link.methods.getSweep, { sweep, trials: ALL_TRIALS });
      const json = JSON.parse(answer.json) as SweepJson;
      const text = {
        json: () => `${JSON.stringify(json, null, 2)}\n`,
        csv: () => {
          const { header, rows } = flags["table"] === "trials" ? trialRows(json) : pointRows(json);
          return csv(header, rows);
        },
        table: () => sweepText(json, context.terminal),
      }[flags["output"] as "json" | "csv" | "table"];
      context.out.write(text());
      result.code = 0;
    });
}

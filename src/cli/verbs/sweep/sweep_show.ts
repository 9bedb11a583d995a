/** `mosaic sweep list` and `mosaic sweep show` */
import { type Command, Option } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import type { SweepJson } from "../../../sweeps/results/sweep_json.ts";
import { tableBytes, TABLES } from "../../../sweeps/results/sweep_table.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { escapeControl } from "../../text/text.ts";
import { sweepImportance, sweepsTable, sweepText } from "../../text/sweep_text.ts";

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
    .addHelpText(
      "after",
      manual({ examples: [["mosaic sweep list", "names, states and progress"]] }),
    )
    .action(async (flags: Flags) => {
      using link = await Link.open(context, connectionFlags(flags));
      const { sweeps } = await link.unary(link.methods.listSweeps, {
        limit: flags["limit"] as number,
      });
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
    "Shows a sweep: the winner with its command line, the best so far, each point with its mean and 95 % interval over seeds, " +
      "which parameters matter, what was stopped early and why, and what that saved.",
  )
    .argument("[sweep]", "name or id of the sweep, or @last", "@last")
    .addOption(
      oneOf(
        new Option("--table <rows>", "rows of csv and parquet: points, or each trial").default(
          "points",
        ),
        TABLES,
      ),
    )
    .option(
      "--statement",
      "sentences to publish: the estimate with its interval, the number of trials, what was discarded",
    );
  connectionOptions(outputOption(show, ["table", "json", "csv", "parquet"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic sweep show ppo", "the whole picture"],
          ["mosaic sweep show ppo --statement", "what one can publish"],
          [
            "mosaic sweep show ppo -o csv --table trials > trials.csv",
            "every trial with its parameters and value",
          ],
          ["mosaic sweep show ppo -o parquet > points.parquet", "for pandas and DuckDB"],
        ],
        exits: { 4: "no such sweep" },
      }),
    )
    .action(async (sweep: string, flags: Flags) => {
      const output = flags["output"] as "table" | "json" | "csv" | "parquet";
      if (output === "parquet" && context.terminal.isTty) {
        throw new MosaicError(
          "invalid_argument",
          "-o parquet writes bytes, which a terminal cannot show",
          {
            hint: "Write them to a file: mosaic sweep show -o parquet > points.parquet",
          },
        );
      }
      using link = await Link.open(context, connectionFlags(flags));
      const answer = await link.unary(link.methods.getSweep, { sweep, trials: ALL_TRIALS });
      const json = JSON.parse(answer.json) as SweepJson;
      switch (output) {
        case "csv":
        case "parquet":
          context.out.writeBytes(await tableBytes(json, flags["table"] as string, output));
          break;
        case "json":
          context.out.write(
            `${
              JSON.stringify(
                { ...json, detail: { ...json.detail, importance: sweepImportance(json) } },
                null,
                2,
              )
            }\n`,
          );
          break;
        case "table":
          context.out.write(
            flags["statement"] === true
              ? `${escapeControl(json.detail!.statement)}\n`
              : sweepText(json, context.terminal),
          );
      }
      result.code = 0;
    });
}

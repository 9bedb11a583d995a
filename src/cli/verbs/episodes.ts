/** `mosaic episodes` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { RUN_ARGUMENT } from "../flags.ts";
import { printTelemetry, telemetryOptions } from "../telemetry_verb.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints a run's episodes in order of their seq (1, 2, 3 …, without gaps). Without --since, --limit or --tail a table " +
        "shows the newest 20; the other formats print all.",
    )
    .argument("<run>", RUN_ARGUMENT);
  telemetryOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic episodes @last", "the newest 20"],
          ["mosaic episodes @last -o csv > episodes.csv", "all episodes, for a spreadsheet"],
          ["mosaic episodes @last -f -o jsonl", "all episodes and new ones, one JSON object per line"],
        ],
        exits: { 130: "interrupted by Ctrl-C; the run continues" },
      }),
    )
    .action(async (run: string, flags: Record<string, unknown>) => {
      result.code = await printTelemetry(context, { run, kind: "episodes" }, flags);
    });
}

/** `mosaic steps` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { RUN_ARGUMENT } from "../flags.ts";
import { printTelemetry, telemetryOptions } from "../telemetry_verb.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints a run's steps in order of their seq (1, 2, 3 …, without gaps). Without --since, --limit or --tail a table " +
        "shows the newest 20; the other formats print all.",
    )
    .argument("<run>", RUN_ARGUMENT);
  telemetryOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic steps @last -f", "the newest 20, then new steps as they arrive"],
          ["mosaic steps @last -o jsonl --since 1000 --limit 500", "steps 1001 to 1500, one JSON object per line"],
          ["mosaic steps @last -o jsonl | jq -s 'map(.reward) | add'", "the sum of all rewards"],
        ],
        exits: { 130: "interrupted by Ctrl-C; the run continues" },
      }),
    )
    .action(async (run: string, flags: Record<string, unknown>) => {
      result.code = await printTelemetry(context, { run, kind: "steps" }, flags);
    });
}

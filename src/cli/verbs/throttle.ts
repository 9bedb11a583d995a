/** `mosaic throttle` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { wholeNumber } from "../flags.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description("Limits runs to a number of steps per second.")
    .requiredOption("--hz <n>", "maximum steps per second; 0: no limit", wholeNumber());
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic throttle @last --hz 500", "at most 500 steps per second"],
          ["mosaic throttle @last --hz 0", "remove the limit"],
        ],
        exits: { 0: "the limit is in force, or will be when the run starts", 6: "a run has ended" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.throttleRun, { run, maxRateHz: Number(flags["hz"]) }),
        (run) => run.maxRateHz === 0 ? "is not throttled" : `is limited to ${run.maxRateHz} steps/s`,
      );
    });
}

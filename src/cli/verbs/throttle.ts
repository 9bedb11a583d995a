/** `mosaic throttle` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { wholeNumber } from "../flags.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description("Holds runs to a number of steps a second.")
    .requiredOption("--hz <n>", "steps a second; 0 lifts the limit", wholeNumber());
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic throttle @last --hz 500", "at most 500 steps a second"],
          ["mosaic throttle @last --hz 0", "as fast as it goes"],
        ],
        exits: { 0: "it is in force, or will be as they start", 6: "a run has ended" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.throttleRun, { run, maxRateHz: Number(flags["hz"]) }),
        (run) => run.maxRateHz === 0 ? "is not throttled" : `is held to ${run.maxRateHz} steps/s`,
      );
    });
}

/** `mosaic demo` */
import type { Command } from "commander";
import { DEMO_DEFAULTS } from "../../demo/demo_runs.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { decimal, wholeNumber } from "../../verb/flags.ts";
import { interruptible } from "../../link/interrupt.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Runs a demonstration: starts a daemon on free ports with its own state directory, trains two agents on CartPole, " +
        "and shows their progress. Takes about 20 seconds and leaves nothing running.",
    )
    .option("--keep", "keep the daemon running and print how to stop it")
    .option("--steps <n>", `steps per run (default: ${DEMO_DEFAULTS.steps})`, wholeNumber(1))
    .option(
      "--step-delay-ms <ms>",
      `minimum time per step (default: ${DEMO_DEFAULTS.stepDelayMs})`,
      decimal(0),
    )
    .option("--state-dir <dir>", "state directory (default: a temporary one)")
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic demo", "run the demo"],
          ["mosaic demo --keep", "then explore it: status page, mosaic list, mosaic plot …"],
        ],
        exits: {
          0: "both runs succeeded",
          1: "something failed",
          130: "interrupted; nothing is left running",
        },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      const { runDemo } = await import("../../demo/demo.ts");
      result.code = await interruptible(
        context,
        "the demo is taken down",
        (signal) =>
          runDemo(context, {
            keep: flags["keep"] === true,
            steps: Number(flags["steps"] ?? DEMO_DEFAULTS.steps),
            stepDelayMs: Number(flags["stepDelayMs"] ?? DEMO_DEFAULTS.stepDelayMs),
            stateDir: flags["stateDir"] as string | undefined,
          }, signal),
      );
    });
}

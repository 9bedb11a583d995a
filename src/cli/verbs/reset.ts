/** `mosaic reset` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description("Stops live runs and restarts them: from a checkpoint, or from their seed. Also restarts ended runs.")
    .option(
      "--from <checkpoint>",
      "checkpoint to start from: an artifact listed by mosaic show, or a path for the worker (default: from the seed)",
    );
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic reset @last", "restart from the seed"],
          ["mosaic reset @last --from checkpoints/episode-000050.json", "restart from this checkpoint"],
        ],
        exits: {
          0: "the runs are queued again, or will be when they have stopped",
          6: "the run's state does not allow it",
        },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      const fromCheckpoint = String(flags["from"] ?? "");
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.resetRun, { run, fromCheckpoint }),
        (run) => `${run.state}, attempt ${run.attempt}`,
      );
    });
}

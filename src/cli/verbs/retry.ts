/** `mosaic retry` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description(
    "Gives ended runs another attempt under the same id: the newest checkpoint is handed to the worker as " +
      "MOSAIC_RESUME_FROM, and its telemetry goes on after what is stored.",
  );
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic retry @last", "try again what failed"]],
        exits: { 0: "the runs are queued again", 6: "a run is still alive (mosaic reset stops it first)" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.retryRun, { run }),
        (run) => `${run.state}, attempt ${run.attempt}`,
      );
    });
}

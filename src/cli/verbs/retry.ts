/** `mosaic retry` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description(
    "Starts another attempt of ended runs, under the same id. The worker gets the newest checkpoint as " +
      "MOSAIC_RESUME_FROM; its telemetry is appended to the stored telemetry.",
  );
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic retry @last", "retry the newest run"]],
        exits: { 0: "the runs are queued again", 6: "a run is still live (mosaic reset stops it first)" },
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

/** `mosaic resume` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description("Resumes paused runs.");
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic resume @last", "resume the newest run"],
          ["mosaic list -q -s paused | xargs -r mosaic resume", "resume all paused runs"],
        ],
        exits: { 0: "the runs are being resumed", 6: "a run has ended" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.resumeRun, { run }),
        (run) => run.state === "PAUSED" ? "is being resumed" : run.state,
      );
    });
}

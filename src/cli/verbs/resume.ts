/** `mosaic resume` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description("Lets paused runs go on.");
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic resume @last", "let the newest run go on"],
          ["mosaic list -q -s paused | xargs -r mosaic resume", "let all go on"],
        ],
        exits: { 0: "they go on", 6: "a run has ended" },
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

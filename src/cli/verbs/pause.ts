/** `mosaic pause` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description(
    "Holds runs. A worker that supports it is asked on its standard input and acknowledges; any other is stopped as a " +
      "process group (SIGSTOP). A held run keeps its GPUs; the time does not count towards heartbeat and stall limits. Answers at once; a run is PAUSED when its worker is held.",
  );
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic pause @last", "hold the newest run"]],
        exits: { 0: "they are being held", 6: "a run has ended" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      result.code = await forEachRun(
        context,
        refs,
        flags,
        (link, run) => link.unary(link.methods.pauseRun, { run }),
        (run) => run.outcome !== "" || run.state === "PAUSED" ? run.state : "is being paused",
      );
    });
}

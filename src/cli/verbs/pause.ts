/** `mosaic pause` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { controlArguments, forEachRun } from "../each_run.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command.description(
    "Pauses runs. A worker that supports pause is asked on its standard input and acknowledges; any other worker's " +
      "process group is stopped (SIGSTOP). A paused run keeps its GPUs; the time does not count towards heartbeat and stall " +
      "limits. Returns at once; a run is PAUSED when its worker has paused.",
  );
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic pause @last", "pause the newest run"]],
        exits: { 0: "the runs are being paused", 6: "a run has ended" },
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

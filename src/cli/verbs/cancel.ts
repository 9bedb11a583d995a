/** `mosaic cancel` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { connectionFlags, decimal } from "../flags.ts";
import { untilEnded } from "../following.ts";
import { interruptible } from "../interrupt.ts";
import { Link } from "../daemon_link.ts";
import { controlArguments, forEachRun } from "../each_run.ts";
import { FOLLOW_RETRY_MS } from "./submit.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Cancels runs: SIGTERM to the worker's process group, SIGKILL after the grace period. Returns at once; a run is " +
        "CANCELLED and its GPUs are free when all its processes are gone. Cancelling an ended run changes nothing.",
    )
    .option("--grace <seconds>", "time between SIGTERM and SIGKILL (default: the daemon's)", decimal(0))
    .option("-w, --wait", "wait until the runs have ended");
  controlArguments(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic cancel @last", "cancel the newest run"],
          ["mosaic cancel --wait --grace 30 01K9ZQ", "allow it 30 s to save its work"],
          ["mosaic list -q -s live -t sweep | xargs -r mosaic cancel", "cancel all live runs of a sweep"],
        ],
        exits: {
          0: "the runs are being cancelled, or had already ended",
          130: "--wait was interrupted by Ctrl-C; the runs are still being cancelled",
        },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      const cancelled: string[] = [];
      result.code = await forEachRun(
        context,
        refs,
        flags,
        async (link, run) => {
          const answer = await link.unary(link.methods.cancelRun, {
            run,
            ...(flags["grace"] === undefined ? {} : { graceSeconds: Number(flags["grace"]) }),
          });
          cancelled.push(answer.runId);
          return answer;
        },
        (run) =>
          run.outcome === "" ? "is being cancelled" : `${run.state}${run.reason === "" ? "" : `: ${run.reason}`}`,
      );
      if (flags["wait"] !== true || result.code !== 0) return;
      result.code = await interruptible(context, "the runs are still being cancelled", async (signal) => {
        using link = await Link.open(context, connectionFlags(flags), { retryMs: FOLLOW_RETRY_MS });
        for (const run of cancelled) await untilEnded(link, run, signal);
        return 0;
      });
    });
}

/** `mosaic cancel` */
import { LIVE_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { Link } from "../../link/daemon_link.ts";
import { controlVerb } from "../../verb/each_run.ts";
import { connectionFlags, decimal } from "../../verb/flags.ts";
import { untilEnded } from "../../link/following.ts";
import { interruptible } from "../../link/interrupt.ts";
import { FOLLOW_RETRY_MS } from "../runs/submit.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";
import { formerly } from "../../verb/verb_parser.ts";

export const define = controlVerb({
  states: LIVE_STATES,
  description:
    "Cancels runs: SIGTERM to the worker's process group, SIGKILL after the grace period. Returns at once; a run is CANCELLED and its GPUs are free when all its processes are gone. Cancelling an ended run changes nothing.",
  options: (command, context) => {
    command
      .option(
        "--grace <seconds>",
        "time between SIGTERM and SIGKILL (default: the daemon's)",
        decimal(0),
      )
      .option("--wait", "wait until the runs have ended, and print how");
    return formerly(command, context, "-w", "--wait");
  },
  examples: [
    ["mosaic cancel @last", "cancel the newest run"],
    ["mosaic cancel --wait --grace 30 01K9ZQ", "allow it 30 s to save its work"],
    ["mosaic cancel -t sweep", "cancel all live runs of a sweep"],
  ],
  exits: {
    0: "the runs are being cancelled, or have ended",
    130: "--wait was interrupted by Ctrl-C; the runs are still being cancelled",
  },
  request: (link, run, { grace }) =>
    link.unary(link.methods.cancelRun, {
      run,
      ...(grace === undefined ? {} : { graceSeconds: Number(grace) }),
    }),
  done: (run) =>
    run.outcome === ""
      ? "is being cancelled"
      : `${stateWord(run.state)}${run.reason === "" ? "" : `: ${run.reason}`}`,
  afterwards: async (context, cancelled, flags) => {
    const answers = [...cancelled];
    if (flags["wait"] !== true) return { code: 0, answers };
    const code = await interruptible(
      context,
      "the runs are still being cancelled",
      async (signal) => {
        using link = await Link.open(context, connectionFlags(flags), { retryMs: FOLLOW_RETRY_MS });
        for (const [i, run] of cancelled.entries()) {
          answers[i] = await untilEnded(link, run.runId, signal) ?? run;
        }
        return 0;
      },
    );
    return { code, answers };
  },
});

/** `mosaic wait` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT, exitOfOutcome } from "../../link/exit.ts";
import {
  connectionFlags,
  connectionOptions,
  durationValue,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { duration } from "../../../base/text/format.ts";
import { untilEnded } from "../../link/following.ts";
import { interruptible } from "../../link/interrupt.ts";
import { runJsonOf } from "../../../runs/fields/run_json.ts";
import { Link } from "../../link/daemon_link.ts";
import { escapeControl } from "../../text/text.ts";
import { FOLLOW_RETRY_MS } from "./submit.ts";
import { anyOf } from "../../../wire/http/waiting.ts";
import { endText } from "../../../runs/fields/lifecycle_states.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Waits until runs have ended. The exit code is that of the first run, in the order given, that did not succeed. A " +
        "failed run that will be retried has not ended.",
    )
    .argument("<run...>", RUN_ARGUMENT)
    .option("--timeout <duration>", "maximum time to wait, such as 30m", durationValue);
  connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic wait @last && ./deploy.sh", "continue when it has succeeded"],
          ["mosaic wait --timeout 8h $(mosaic list -q -t sweep -s live)", "wait for a whole sweep"],
        ],
        exits: {
          0: "all succeeded",
          1: "a run failed",
          4: "no such run",
          5: "a run was cancelled",
          9: "the --timeout has expired",
          130: "interrupted; the runs continue",
        },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      const timeout = flags["timeout"] === undefined ? undefined : Number(flags["timeout"]);
      result.code = await interruptible(context, "the runs continue", async (interrupted) => {
        using link = await Link.open(context, connectionFlags(flags), { retryMs: FOLLOW_RETRY_MS });
        const late = new AbortController();
        const timer = timeout === undefined ? undefined : setTimeout(() => late.abort(), timeout);
        using either = anyOf(interrupted, late.signal);
        const { signal } = either;
        let code: number = EXIT.ok;
        const ended: unknown[] = [];
        try {
          // Resolve all names first: @last may change, and a misspelt name should fail at once.
          const ids: string[] = [];
          for (const run of refs) {
            ids.push((await link.unary(link.methods.getRun, { run }, signal)).runId);
          }
          for (const id of ids) {
            const run = await untilEnded(link, id, signal);
            if (run === undefined) {
              if (!interrupted.aborted) {
                context.err.write(
                  `mosaic: run ${escapeControl(id)} has not ended after ${duration(timeout!)}\n`,
                );
              }
              return EXIT.timedOut;
            }
            code ||= exitOfOutcome(run.outcome);
            if (flags["output"] === "table") {
              context.out.write(
                `${run.runId}  ${escapeControl(endText(runJsonOf(run)))}\n`,
              );
            } else if (flags["output"] === "jsonl") {
              context.out.write(`${JSON.stringify(runJsonOf(run))}\n`);
            } else {
              ended.push(runJsonOf(run));
            }
          }
        } finally {
          clearTimeout(timer);
        }
        if (flags["output"] === "json") context.out.write(`${JSON.stringify(ended, null, 2)}\n`);
        return code;
      });
    });
}

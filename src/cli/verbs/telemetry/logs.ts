/** `mosaic logs` */
import type { Command } from "commander";
import type { Run } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import { formerly, manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT } from "../../link/exit.ts";
import { connectionFlags, connectionOptions, RUN_ARGUMENT, wholeNumber } from "../../verb/flags.ts";
import { count } from "../../../base/text/format.ts";
import { interruptible } from "../../link/interrupt.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import { Link } from "../../link/daemon_link.ts";

const FOLLOW_RETRY_MS = 120_000;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints the output of a worker, byte for byte: that of the newest attempt, or of --attempt. With --follow the daemon limits the lines per " +
        "second; the number of suppressed lines is printed on stderr, and the file has them all.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("-f, --follow", "continue with new output until the run has ended")
    .option("--stderr", "print standard error instead of standard output")
    .option(
      "--rank <n>",
      "of a run on several nodes: the output of this rank (default: 0)",
      wholeNumber(),
    )
    .option(
      "--attempt <n>",
      "the output of this attempt, from 1 (default: the newest)",
      wholeNumber(1),
    )
    .option("--tail <n>", "only the last n lines", wholeNumber(1))
    .option("--since-offset <bytes>", "start at this byte offset", wholeNumber());
  connectionOptions(formerly(command, context, "-n <n>", "--tail"))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic logs @last --stderr --tail 50", "the last lines before a failure"],
          ["mosaic logs @last -f", "follow the output"],
          ["mosaic logs @last --stderr --attempt 1", "why the first attempt failed, after a retry"],
        ],
        exits: {
          2: "the run did not have this attempt or rank",
          130: "interrupted by Ctrl-C; the run continues",
        },
      }),
    )
    .action(async (ref: string, flags: Record<string, unknown>) => {
      const follow = flags["follow"] === true;
      result.code = await interruptible(
        context,
        follow ? "the run continues" : "",
        async (signal) => {
          using link = await Link.open(context, connectionFlags(flags), {
            retryMs: follow ? FOLLOW_RETRY_MS : 0,
          });
          const run = await link.unary(link.methods.getRun, { run: ref }, signal);
          const { runId } = run;
          const tail = Number(flags["tail"] ?? 0);
          const stream = flags["stderr"] === true ? "stderr" : "stdout";
          const since = Number(flags["sinceOffset"] ?? 0);
          let opened = false;
          const chunks = link.resumed(
            link.methods.streamLogs,
            (sinceOffset) => {
              const tailLines = opened ? 0 : tail;
              opened = true;
              return {
                run: runId,
                stream,
                sinceOffset,
                tailLines,
                follow,
                rank: Number(flags["rank"] ?? 0),
                attempt: Number(flags["attempt"] ?? 0),
              };
            },
            (chunk) => chunk.nextOffset,
            BigInt(since),
            signal,
          );
          let bytes = 0;
          for await (const chunk of chunks) {
            bytes += chunk.text.length;
            context.out.writeBytes(chunk.text);
            if (chunk.suppressedLines > 0n) {
              context.err.write(
                `mosaic: suppressed ${
                  count(Number(chunk.suppressedLines))
                } lines; the file has them\n`,
              );
            }
          }
          if (bytes === 0 && keepsNoLogs(run)) {
            context.err.write(
              "mosaic: the logs were deleted: the config has artifacts.persist_logs false\n",
            );
          } else if (bytes === 0 && since === 0 && stream === "stdout") {
            context.err.write(
              "mosaic: nothing on standard output; --stderr prints standard error\n",
            );
          }
          return EXIT.ok;
        },
      );
    });
}

/**
 * With artifacts.persist_logs false, the daemon deletes the logs of a run that succeeded or was
 * cancelled.
 */
function keepsNoLogs(run: Run): boolean {
  if (run.outcome === "" || run.outcome === "failed") return false;
  const { artifacts } = runDetailJsonOf(run).config as { artifacts?: { persist_logs?: boolean } };
  return artifacts?.persist_logs === false;
}

/** `mosaic watch` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionOptions, outputOption } from "../../verb/flags.ts";
import { printEvents, RECENT, startOf } from "../telemetry/events.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints state changes of one run, or of all runs, as they happen. Ends when the run has ended; for all runs, at " +
        "Ctrl-C.",
    )
    .argument("[run]", "only this run")
    .option(
      "--since <when>",
      "start after this event seq, this long ago (2h), or at this time (default for one run: all changes; for all runs: new changes)",
    );
  connectionOptions(outputOption(command, ["table", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic watch", "all runs"],
          ["mosaic watch @last -o jsonl", "one run, one JSON object per line (as mosaic events)"],
        ],
        exits: { 130: "interrupted by Ctrl-C; the run continues" },
      }),
    )
    .action(async (run: string | undefined, flags: Record<string, unknown>) => {
      const start = startOf(flags["since"], context.now());
      const toCome = run === undefined && flags["since"] === undefined;
      const query = {
        run: run ?? "",
        kinds: ["state", "deleted"],
        follow: true,
        ...start,
        // Earlier events are not printed, but give a reopened stream the seq to continue from.
        ...(toCome ? { from: context.now(), tail: RECENT } : { tail: 0 }),
      };
      result.code = await printEvents(context, query, flags);
    });
}

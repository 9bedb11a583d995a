/** `mosaic watch` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { connectionOptions, outputOption } from "../flags.ts";
import { printEvents, RECENT, startOf } from "./events.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints each change of state, of one run or of all, as it happens. Watching one run ends when it has ended; watching " +
        "all goes on until Ctrl-C.",
    )
    .argument("[run]", "only this run")
    .option(
      "--since <when>",
      "changes after this event's seq, or since so long ago (2h), or a time (default: of one run all, of all runs those to come)",
    );
  connectionOptions(outputOption(command, ["table", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic watch", "all runs"],
          ["mosaic watch @last -o jsonl", "one run, one JSON object a line (the shape of mosaic events)"],
        ],
        exits: { 130: "ended by Ctrl-C; the run goes on" },
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
        // What came before is not shown, and yet tells a stream that is opened again where to go on.
        ...(toCome ? { from: context.now(), tail: RECENT } : { tail: 0 }),
      };
      result.code = await printEvents(context, query, flags);
    });
}

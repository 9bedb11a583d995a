/** `mosaic watch` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { connectionOptions, outputOption, wholeNumber } from "../flags.ts";
import { printEvents } from "./events.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints each change of state, of one run or of all, as it happens. Watching one run ends when it has ended; watching " +
        "all goes on until Ctrl-C.",
    )
    .argument("[run]", "only this run")
    .option(
      "--since <seq>",
      "changes after the event with this seq (default: of one run all, of all runs those to come)",
      wholeNumber(),
    );
  connectionOptions(outputOption(command, ["table", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic watch", "all runs"],
          ["mosaic watch @last -o jsonl", "one run, one JSON object a line (the shape of mosaic events)"],
        ],
      }),
    )
    .action(async (run: string | undefined, flags: Record<string, unknown>) => {
      // The whole history of a host is no answer to "what happens"; --since 0 asks for it.
      const from = run === undefined && flags["since"] === undefined ? context.now() : 0;
      const query = { run: run ?? "", kinds: ["state", "deleted"], follow: true, from };
      result.code = await printEvents(context, query, flags);
    });
}

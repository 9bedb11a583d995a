/** `mosaic notify` */
import { Argument, type Command } from "commander";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { Link } from "../../link/daemon_link.ts";
import { EXIT } from "../../link/exit.ts";
import { table } from "../../text/table.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Sends a test message to those whom the daemon tells of runs (mosaic daemon --notify FILE).",
    )
    .addArgument(oneOf(new Argument("<what>", "action"), ["test"] as const))
    .argument("[receiver]", "name of the receiver (default: all)");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic notify test", "a message to every receiver"],
          ["mosaic notify test phone", "to the one of this name"],
        ],
        exits: { 0: "all were sent", 1: "one was not sent", 4: "there is no such receiver" },
      }),
    )
    .action(async (_what: string, receiver: string | undefined, flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const { results } = await link.unary(link.methods.testMessages, { receiver: receiver ?? "" });
      const rows = results.map(({ receiver, error }) => ({
        receiver,
        error: error === "" ? null : error,
      }));
      context.out.write(
        flags["output"] === "json" ? `${JSON.stringify(rows, null, 2)}\n` : table(
          [{ name: "receiver", text: (row) => row.receiver }, {
            name: "sent",
            text: (row) => row.error ?? "yes",
          }],
          rows,
          context.terminal,
        ),
      );
      result.code = rows.every(({ error }) => error === null) ? EXIT.ok : EXIT.failed;
    });
}

/** `mosaic status` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { hostJsonOf } from "../../../runs/fields/host_json.ts";
import { Link } from "../../link/daemon_link.ts";
import { statusPage } from "../../text/status_text.ts";

export function define(command: Command, context: Context): void {
  command.description("Shows the daemon, its host and its GPU slots.");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic status", "whether a daemon is running, and its GPU slots"],
          [
            "mosaic status -o json | jq '[.gpus[] | select(.run_id == null)] | length'",
            "free GPU slots",
          ],
        ],
        exits: { 0: "the daemon answers", 3: "the daemon does not answer" },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const host = hostJsonOf(await link.unary(link.methods.getHost, {}));
      context.out.write(
        flags["output"] === "json"
          ? `${JSON.stringify(host, null, 2)}\n`
          : statusPage(host, { now: context.now(), color: context.terminal.color }),
      );
    });
}

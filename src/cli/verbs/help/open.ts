/** `mosaic open` */
import type { Command } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions, RUN_ARGUMENT } from "../../verb/flags.ts";
import { Link } from "../../link/daemon_link.ts";
import { pageAddress } from "../../text/page_address.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints the address of the daemon's page, or of a run's page, for a browser. No token is in it: where the daemon " +
        "requires one, the page asks for it.",
    )
    .argument("[run]", RUN_ARGUMENT);
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic open", "the page with all runs"],
          ["mosaic open @last", "the page of the newest run"],
          ['xdg-open "$(mosaic open @last)"', "show it in the browser"],
        ],
        exits: {
          4: "no such run",
          6: "the daemon serves no page: it was started with --http none",
        },
      }),
    )
    .action(async (run: string | undefined, flags: Record<string, unknown>) => {
      const connection = connectionFlags(flags);
      using link = await Link.open(context, connection);
      const [{ http, tls: https }, found] = await Promise.all([
        link.unary(link.methods.getHost, {}),
        run === undefined ? undefined : link.unary(link.methods.getRun, { run }),
      ]);
      const target = connection.target ||
        (connection.stateDir ? undefined : context.env("MOSAIC_TARGET"));
      const tls = ["MOSAIC_TLS_CA", "MOSAIC_TLS_CERT"].some((name) => context.env(name));
      const address = pageAddress({ http, https, target, tls });
      if (address === undefined) {
        throw new MosaicError("failed_precondition", "the daemon serves no page", {
          hint: "It was started with --http none; start it again with --http HOST:PORT.",
        });
      }
      context.out.write(
        `${address}${found === undefined ? "" : `runs/${encodeURIComponent(found.runId)}`}\n`,
      );
    });
}

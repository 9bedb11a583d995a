/** `mosaic down` */
import type { Command } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { sleep } from "../../../base/time/sleep.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { isTransient, Link } from "../../link/daemon_link.ts";
import { connectionFlags, connectionOptions } from "../../verb/flags.ts";

const END_MS = 60_000;
const POLL_MS = 50;

export function define(command: Command, context: Context): void {
  command.description(
    "Stops the daemon and waits until it no longer answers. Runs continue; the next daemon finds them again. A service " +
      "manager may start it again: stop the service instead.",
  );
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic down", "stop the daemon"],
          ["mosaic down && mosaic up", "the same as mosaic up --replace"],
        ],
        exits: { 0: "it has stopped", 3: "no daemon is running" },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      const connection = connectionFlags(flags);
      using link = await Link.open(context, connection);
      const { pid } = await link.unary(link.methods.getHost, {});
      await link.unary(link.methods.shutdown, {});
      for (
        const deadline = performance.now() + END_MS;
        await answers(context, connection);
        await sleep(POLL_MS)
      ) {
        if (performance.now() < deadline) continue;
        throw new MosaicError("deadline_exceeded", `the daemon (pid ${pid}) still answers`, {
          hint: "A service manager may have started it again; else see its log.",
        });
      }
      context.out.write(`The daemon (pid ${pid}) has stopped; its runs continue.\n`);
    });
}

async function answers(
  context: Context,
  flags: ReturnType<typeof connectionFlags>,
): Promise<boolean> {
  try {
    using link = await Link.open(context, flags);
    await link.unary(link.methods.getHost, {});
    return true;
  } catch (error) {
    if (isTransient(error)) return false;
    throw error;
  }
}

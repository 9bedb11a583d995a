/** Starting a daemon for somebody at a terminal who has none. */
import { MosaicError } from "../../base/errors.ts";
import type { Context } from "./context.ts";
import { Link } from "./daemon_link.ts";
import type { ConnectionFlags } from "../../wire/client/daemon_api.ts";

const QUESTION = "No daemon is running. Start one in the background? [Y/n] ";

/**
 * Asks whether to start the state directory's daemon if none answers. Without a terminal, and after
 * a no, it does nothing: the call that follows fails and says how to start one.
 */
export async function offerDaemon(context: Context, { stateDir }: ConnectionFlags): Promise<void> {
  if (!context.canAsk) return;
  const flags = stateDir === undefined ? {} : { stateDir };
  try {
    using link = await Link.open(context, flags);
    await link.unary(link.methods.getHost, {});
    return;
  } catch (error) {
    if (!(error instanceof MosaicError) || error.code !== "unavailable") throw error;
  }
  if (!/^(y|yes)?$/i.test((await context.ask(QUESTION) ?? "n").trim())) return;
  const words = stateDir === undefined ? [] : ["--state-dir", stateDir];
  if (await context.runSelf(["up", ...words]) === 0) return;
  throw new MosaicError("unavailable", "the daemon did not start: see above");
}

/** The file of `--notify`, with its secrets. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { checkFilter } from "../../dispatch/core/run_query.ts";
import type { Receivers } from "../../observability/messages/receivers.ts";
import { ownEnvironment } from "../../os/processes/environment.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

/**
 * @param path absolute; undefined: nobody gets messages @throws StartFailure (usage) with the field
 * and what is wrong
 */
export async function notifyFile(path: string | undefined): Promise<Receivers | undefined> {
  if (path === undefined) return undefined;
  const wrong = (why: string, hint?: string) =>
    new StartFailure(DAEMON_EXIT.usage, `--notify ${path}: ${why}`, hint);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    throw wrong(messageOf(error));
  }
  const { checkFilters, receiversOf } = await import("../../observability/messages/receivers.ts");
  try {
    const receivers = receiversOf(
      text,
      (from) =>
        "file" in from ? Deno.readTextFileSync(from.file) : ownEnvironment()[from.variable] ?? "",
    );
    checkFilters(receivers, checkFilter);
    return receivers;
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    throw wrong(error.message, error.hint);
  }
}

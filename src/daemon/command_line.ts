/** `mosaic daemon`: arguments and exit code. Loads the daemon's modules only after the arguments are checked. */
import { explainMissing } from "../permissions/missing.ts";
import { stderrSink } from "../base/log_line.ts";
import { ReaderGone } from "../cli/output.ts";
import { ownEnvironment } from "../os/environment.ts";
import { DAEMON_EXIT, startFailureOf } from "./exit_codes.ts";
import { daemonOptions } from "./options.ts";

/** Runs a daemon until it is stopped. @returns its exit code (src/daemon/exit_codes.ts) */
export async function runDaemon(args: string[]): Promise<number> {
  try {
    const options = daemonOptions(args, (name) => ownEnvironment()[name]);
    if (options === undefined) return DAEMON_EXIT.ok;
    const { serveUntilStopped } = await import("../daemon.ts");
    return await serveUntilStopped(options, args);
  } catch (error) {
    if (error instanceof ReaderGone) return DAEMON_EXIT.ok;
    const failure = startFailureOf(explainMissing(error));
    if (failure !== undefined) return fail(failure.code, failure.message, failure.hint);
    return fail(DAEMON_EXIT.internal, error instanceof Error ? error.stack ?? error.message : String(error));
  }
}

function fail(code: number, message: string, hint?: string): number {
  stderrSink(`mosaic daemon: ${message}\n${hint === undefined ? "" : `  ${hint}\n`}`);
  return code;
}

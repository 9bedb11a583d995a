/**
 * `mosaic daemon` and `mosaic up`: arguments and exit code. Loads the daemon's modules only after
 * the arguments are checked.
 */
import { explainMissing } from "../../permissions/missing.ts";
import { stderrSink } from "../../base/log_line.ts";
import { realContext } from "../../cli/real_context.ts";
import { ReaderGone } from "../../cli/link/output.ts";
import { ownEnvironment } from "../../os/processes/environment.ts";
import { DAEMON_EXIT, startFailureOf } from "./exit_codes.ts";
import { daemonOptions } from "./options.ts";

/**
 * Runs a daemon until it is stopped, or starts one in the background. @returns its exit code
 * (src/daemon/start/exit_codes.ts)
 */
export async function runDaemon(args: string[], verb: "daemon" | "up" = "daemon"): Promise<number> {
  try {
    const options = daemonOptions(args, (name) => ownEnvironment()[name], verb);
    if (options === undefined) return DAEMON_EXIT.ok;
    if (verb === "up" || options.detach) {
      const { stateDir, replace } = options;
      const { out, err } = realContext();
      const { startInBackground } = await import("./detach.ts");
      return await startInBackground({
        stateDir,
        replace,
        args,
        find: verb === "up",
        out: out.write,
        err: err.write,
      });
    }
    const { serveUntilStopped } = await import("../../daemon.ts");
    return await serveUntilStopped(options, args);
  } catch (error) {
    if (error instanceof ReaderGone) return DAEMON_EXIT.ok;
    const failure = startFailureOf(explainMissing(error));
    if (failure !== undefined) return fail(verb, failure.code, failure.message, failure.hint);
    return fail(
      verb,
      DAEMON_EXIT.internal,
      error instanceof Error ? error.stack ?? error.message : String(error),
    );
  }
}

function fail(verb: string, code: number, message: string, hint?: string): number {
  stderrSink(`mosaic ${verb}: ${message}\n${hint === undefined ? "" : `  ${hint}\n`}`);
  return code;
}

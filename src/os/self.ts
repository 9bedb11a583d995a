/** How mosaic starts itself again (daemon → proxy) in each of its forms: from source, compiled, portable. */
import { ownEnvironment } from "./environment.ts";
import { V8_FLAGS } from "./heap.ts";

export interface SelfCommand {
  /** argv prefix that runs this very mosaic; a subcommand and its arguments follow. */
  argv: string[];
  /** Variables that go with it. */
  env: Record<string, string>;
}

/** Source wherever the environment may not be looked at: the other two forms may do that much. */
export function programForm(): "source" | "compiled" | "portable" {
  if (Deno.build.standalone) return "compiled";
  try {
    return ownEnvironment().MOSAIC_EXECUTABLE ? "portable" : "source";
  } catch {
    return "source";
  }
}

/** Where the portable executable takes its flags from, one a line, instead of planning them. */
export const PLANNED_VARIABLE = "MOSAIC_PLANNED";

/** Set to `all`, nothing is held to a plan: for finding out whether a plan is at fault. */
export const PROFILE_VARIABLE = "MOSAIC_PERMISSIONS";

/**
 * @param flags permissions to start with. Without them the portable executable finds its own and source code runs with all.
 * A compiled executable has what was baked into it, whatever is said here.
 */
export function selfCommand(flags?: readonly string[]): SelfCommand {
  // The portable executable is a shell stub around Deno; the stub hands its own path on.
  const portable = ownEnvironment().MOSAIC_EXECUTABLE;
  if (portable !== undefined && portable !== "") {
    return { argv: [portable], env: flags === undefined ? {} : { [PLANNED_VARIABLE]: flags.join("\n") } };
  }
  if (Deno.build.standalone) return { argv: [Deno.execPath()], env: {} };
  const all = flags === undefined || ownEnvironment()[PROFILE_VARIABLE] === "all";
  // The packages are there, since this process uses them: looking after them again (under a lock that all share) is half of
  // the start-up time.
  const runtime = [Deno.execPath(), "run", "--no-prompt", "--node-modules-dir=manual", V8_FLAGS];
  return { argv: [...runtime, ...(all ? ["-A"] : flags), Deno.mainModule], env: {} };
}

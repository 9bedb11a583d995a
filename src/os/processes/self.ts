/**
 * The command with which mosaic starts itself (daemon → proxy), for each form: source, compiled,
 * portable.
 */
import { ownEnvironment } from "./environment.ts";
import { V8_FLAGS } from "./heap.ts";

export interface SelfCommand {
  /** argv prefix that runs this mosaic; a subcommand and its arguments follow. */
  argv: string[];
  /** Additional environment variables. */
  env: Record<string, string>;
}

/** "source" if the environment is not readable: the other forms always have that permission. */
export function programForm(): "source" | "compiled" | "portable" {
  if (Deno.build.standalone) return "compiled";
  try {
    return ownEnvironment().MOSAIC_EXECUTABLE ? "portable" : "source";
  } catch {
    return "source";
  }
}

/**
 * Variable with permission flags for the portable executable, one per line, instead of its own
 * plan.
 */
const PLANNED_VARIABLE = "MOSAIC_PLANNED";

/** Set to `all`: run with all permissions, to find out whether a plan is wrong. */
const PROFILE_VARIABLE = "MOSAIC_PERMISSIONS";

/**
 * @param flags permissions to start with. Without them the portable executable plans its own and
 * source code gets all. Ignored by a compiled executable, which has built-in permissions.
 */
export function selfCommand(flags?: readonly string[]): SelfCommand {
  // The portable executable is a shell stub around Deno; the stub passes its own path.
  const portable = ownEnvironment().MOSAIC_EXECUTABLE;
  if (portable !== undefined && portable !== "") {
    return {
      argv: [portable],
      env: flags === undefined ? {} : { [PLANNED_VARIABLE]: flags.join("\n") },
    };
  }
  if (Deno.build.standalone) return { argv: [Deno.execPath()], env: {} };
  const all = flags === undefined || ownEnvironment()[PROFILE_VARIABLE] === "all";
  // Packages are installed, because this process uses them; checking them again, under a shared
  // lock, takes half of the start-up time.
  const runtime = [Deno.execPath(), "run", "--no-prompt", "--node-modules-dir=manual", V8_FLAGS];
  return { argv: [...runtime, ...(all ? ["-A"] : flags), Deno.mainModule], env: {} };
}

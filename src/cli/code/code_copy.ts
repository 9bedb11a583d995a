/**
 * A copy of a run's code in the directory of the run that is about to be submitted; it is removed
 * with the run.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { type BaseDir, Layout } from "../../base/layout.ts";
import { newUlid } from "../../config/ulid.ts";
import type { Copied } from "../../provenance/copy_code.ts";
import type { RunScript } from "../../provenance/collect.ts";
import type { Context } from "../link/context.ts";
import type { Link } from "../link/daemon_link.ts";

/** A large repository on a slow disk. */
const COPY_MS = 600_000;

export interface CodeCopy extends Copied {
  runId: string;
  /** Stands for the repository's top. */
  directory: string;
  /** Removes everything, because the run was not submitted. */
  remove(): void;
}

/**
 * @param cwd where the repository is
 * @param work fills the directory
 * @throws MosaicError `failed_precondition` if the daemon's state directory is not this user's
 */
export async function makeCopy(
  context: Context,
  link: Link,
  base: BaseDir,
  cwd: string,
  work: (to: string, run: RunScript, runDirectory: string) => Promise<Copied>,
): Promise<CodeCopy> {
  const { stateDir } = await link.unary(link.methods.getHost, {});
  const runId = newUlid();
  const runDirectory = new Layout(stateDir).runDir(base, runId);
  const directory = `${runDirectory}/code`;
  try {
    // Other users must not read it; the daemon makes the run's directory with this mode.
    Deno.mkdirSync(runDirectory, { mode: 0o700 });
    Deno.mkdirSync(directory);
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `the code cannot be copied to ${directory}: ${messageOf(error)}`,
      {
        hint:
          "The copy is made by you in the daemon's state directory: the daemon must be yours, on this host.",
        cause: error,
      },
    );
  }
  const remove = () => Deno.removeSync(runDirectory, { recursive: true });
  const run: RunScript = (script, words, env) =>
    context.runScript(script, words, { env, cwd, limitMs: COPY_MS });
  try {
    return { ...await work(directory, run, runDirectory), runId, directory, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

export function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

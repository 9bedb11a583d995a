/**
 * Finds the worker's program as execvp does, before anything is started, so that the error names
 * it.
 */
import { kindsOf } from "../../os/files/file_kinds.ts";
import type { WorkerUser } from "../../os/rights/worker_user.ts";
import { PROXY_EXIT } from "../state/exit_codes.ts";

/**
 * `searched` is the PATH that was searched: too long for a failure reason, but useful in the log.
 */
export type FoundProgram = { path: string } | { error: string; code: number; searched?: string };

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * @param path The PATH of the worker's environment. @param user who is to see it; undefined: this
 * process's
 */
export function findProgram(
  name: string,
  cwd: string,
  path: string | undefined,
  user?: WorkerUser,
): FoundProgram {
  if (name === "") return { error: "the command is empty", code: PROXY_EXIT.noProgram };
  const candidates = name.includes("/")
    ? [name.startsWith("/") ? name : `${cwd}/${name}`]
    : (path || DEFAULT_PATH).split(":").map((directory) => {
      const base = directory === ""
        ? cwd
        : directory.startsWith("/")
        ? directory
        : `${cwd}/${directory}`;
      return `${base}/${name}`;
    });
  const kinds = kindsOf(candidates, user);
  const found = candidates[kinds.indexOf("executable")];
  if (found !== undefined) return { path: found };
  const refused = candidates.find((_, at) => kinds[at] !== undefined);
  if (refused !== undefined) {
    return { error: `${refused} is not executable`, code: PROXY_EXIT.notExecutable };
  }
  if (name.includes("/")) {
    return { error: `no such program: ${candidates[0]}`, code: PROXY_EXIT.noProgram };
  }
  return {
    error: `no such program: ${name} is not on the worker's PATH`,
    code: PROXY_EXIT.noProgram,
    searched: path || DEFAULT_PATH,
  };
}

/** Finds the worker's program as execvp would, before anything is started: so that the error names it. */
import { kindsOf } from "../process/looking.ts";
import { PROXY_EXIT } from "./exit_codes.ts";

export type FoundProgram = { path: string } | { error: string; code: number };

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/** @param path The PATH of the worker's environment. */
export function findProgram(name: string, cwd: string, path: string | undefined): FoundProgram {
  if (name === "") return { error: "the command is empty", code: PROXY_EXIT.noProgram };
  const candidates = name.includes("/")
    ? [name.startsWith("/") ? name : `${cwd}/${name}`]
    : (path || DEFAULT_PATH).split(":").map((directory) => {
      const base = directory === "" ? cwd : directory.startsWith("/") ? directory : `${cwd}/${directory}`;
      return `${base}/${name}`;
    });
  const kinds = kindsOf(candidates);
  const found = candidates[kinds.indexOf("executable")];
  if (found !== undefined) return { path: found };
  const refused = candidates.find((_, at) => kinds[at] !== undefined);
  if (refused !== undefined) return { error: `${refused} is not executable`, code: PROXY_EXIT.notExecutable };
  const what = name.includes("/") ? candidates[0] : `${name} is not in PATH (${path || DEFAULT_PATH})`;
  return { error: `no such program: ${what}`, code: PROXY_EXIT.noProgram };
}

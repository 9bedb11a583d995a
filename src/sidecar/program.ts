/** Finds the worker's program as execvp would, before anything is started: so that the error names it. */
import { PROXY_EXIT } from "./exit_codes.ts";

export type FoundProgram = { path: string } | { error: string; code: number };

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

function executable(path: string): "yes" | "no" | "missing" {
  try {
    const info = Deno.statSync(path);
    return info.isFile && ((info.mode ?? 0) & 0o111) !== 0 ? "yes" : "no";
  } catch (error) {
    // A directory on the way that may not be searched is as good as missing.
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied) return "missing";
    if (error instanceof Error && /ENOTDIR|Not a directory|ELOOP|ENAMETOOLONG/i.test(error.message)) return "missing";
    throw error;
  }
}

/** @param path The PATH of the worker's environment. */
export function findProgram(name: string, cwd: string, path: string | undefined): FoundProgram {
  if (name === "") return { error: "the command is empty", code: PROXY_EXIT.noProgram };
  const candidates = name.includes("/")
    ? [name.startsWith("/") ? name : `${cwd}/${name}`]
    : (path || DEFAULT_PATH).split(":").map((directory) => {
      const base = directory === "" ? cwd : directory.startsWith("/") ? directory : `${cwd}/${directory}`;
      return `${base}/${name}`;
    });
  let refused: string | undefined;
  for (const candidate of candidates) {
    const found = executable(candidate);
    if (found === "yes") return { path: candidate };
    if (found === "no") refused ??= candidate;
  }
  if (refused !== undefined) return { error: `${refused} is not executable`, code: PROXY_EXIT.notExecutable };
  const what = name.includes("/") ? candidates[0] : `${name} is not in PATH (${path || DEFAULT_PATH})`;
  return { error: `no such program: ${what}`, code: PROXY_EXIT.noProgram };
}

/** Kind of file at a path, from Deno or, for paths without permission, from a shell. */
import { outputAs, outputOfUser } from "../rights/user_shell.ts";
import type { WorkerUser } from "../rights/worker_user.ts";

export type Kind = "directory" | "file" | "executable" | "other";

const SCRIPT = `for path in "$0" "$@"; do
  if [ -d "$path" ]; then echo directory; elif [ -f "$path" ]; then
    if [ -x "$path" ]; then echo executable; else echo file; fi
  elif [ -e "$path" ]; then echo other; else echo; fi
done`;

/**
 * Undefined if there is no file, or none that the user can see. Follows links. @param user
 * undefined: this process's
 */
export function kindsOf(paths: readonly string[], user?: WorkerUser): (Kind | undefined)[] {
  if (user === undefined) {
    try {
      return paths.map(statKind);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
    }
  }
  return kindsIn(outputAs(user, SCRIPT, ...paths), paths);
}

/** The same without blocking the thread. @throws MosaicError `deadline_exceeded` */
export async function kindsLater(
  paths: readonly string[],
  user: WorkerUser | undefined,
  timeoutMs: number,
) {
  return paths.length === 0
    ? []
    : kindsIn(await outputOfUser(user, timeoutMs, SCRIPT, ...paths), paths);
}

function kindsIn(output: string | undefined, paths: readonly string[]): (Kind | undefined)[] {
  const lines = output?.split("\n") ?? [];
  return paths.map((_, at) => (lines[at] || undefined) as Kind | undefined);
}

export function kindOf(path: string, user?: WorkerUser): Kind | undefined {
  return kindsOf([path], user)[0];
}

/** The first of `paths` that is an executable file. */
export function firstExecutable(paths: readonly string[], user?: WorkerUser): string | undefined {
  if (paths.length === 0) return undefined;
  const at = kindsOf(paths, user).indexOf("executable");
  return at < 0 ? undefined : paths[at];
}

/** @throws NotCapable */
function statKind(path: string): Kind | undefined {
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    return undefined;
  }
  if (info.isDirectory) return "directory";
  if (!info.isFile) return "other";
  return ((info.mode ?? 0) & 0o111) !== 0 ? "executable" : "file";
}

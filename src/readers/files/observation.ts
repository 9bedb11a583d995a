/** The files that a proxy observes besides the journal, from its start file. */
import type { WorkerUser } from "../../os/rights/worker_user.ts";

export interface Observation {
  /**
   * Directories to search, absolute: the worker's working directory. In earlier versions, all
   * directories.
   */
  roots: readonly string[];
  /** Other directories where trackers of any program write. */
  places?: readonly string[];
  /** Patterns of further files, absolute, each with the directory above its first wildcard. */
  globs: readonly { root: string; glob: string }[];
  /** The worker's user, who must be able to read them; undefined: the proxy's. */
  user?: WorkerUser | undefined;
}

/**
 * Where trackers write besides the working directory: a variable of the worker's environment, and a
 * path below its value.
 */
const PLACES: readonly [variable: string, below: string][] = [["HOME", "/ray_results"], [
  "WANDB_DIR",
  "",
]];

/** @param globs absolute, or relative to the working directory */
export function observationOf(
  { cwd, env, user }: {
    cwd: string;
    env: Readonly<Record<string, string>>;
    user?: WorkerUser | undefined;
  },
  globs: readonly string[],
): Observation {
  const places = PLACES.flatMap(([variable, below]) =>
    env[variable]?.startsWith("/") ? [env[variable] + below] : []
  );
  // With / as a root every file would count as the worker's.
  const known = (paths: string[]) => [...new Set(paths)].filter((path) => path !== "/");
  const absolute = globs.map((glob) => glob.startsWith("/") ? glob : `${cwd}/${glob}`);
  const [roots, others] = [known([cwd]), known(places.filter((path) => path !== cwd))];
  return {
    roots,
    places: others,
    globs: absolute.map((glob) => ({ root: rootOfGlob(glob), glob })),
    user,
  };
}

function rootOfGlob(glob: string): string {
  const wildcard = glob.search(/[*?[]/);
  const fixed = wildcard < 0 ? glob : glob.slice(0, wildcard);
  return fixed.slice(0, fixed.lastIndexOf("/")) || "/";
}

/**
 * A pattern that is a directory's name means all files in it. `*` and `?` stay within a name, `**`
 * spans directories.
 */
export function matcherOf(glob: string): (path: string) => boolean {
  const source = glob.replace(/\*\*\/?|[*?]|[^*?]+/g, (part) => {
    if (part === "**/") return "(?:.*/)?";
    if (part === "**") return ".*";
    if (part === "*") return "[^/]*";
    if (part === "?") return "[^/]";
    return part.replace(/[\\^$.|+(){}[\]]/g, "\\$&");
  });
  const pattern = new RegExp(
    `^${source.replace(/\/$/, "")}${/[*?]/.test(glob) ? "" : "(?:/.*)?"}$`,
  );
  return (path) => pattern.test(path);
}

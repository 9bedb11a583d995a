/**
 * Where links lead through which a run's files are reached: an output directory on another disk,
 * `~/ray_results` on scratch. Proxies follow no links, and may read only what their start file
 * names; so the links are resolved before the worker starts, which could make others.
 */
import { ProgramLate, runProgram } from "../../../os/processes/external_program.ts";
import type { Observation } from "../../../readers/files/observation.ts";

/** A slow file system must not keep a run from starting. */
const PATIENCE_MS = 5000;
const MOST_LINKS = 64;

/**
 * Prints the real path of each file or directory, an empty line for one whose directory does not
 * exist.
 */
const REAL = 'for path; do readlink -f -- "$path" || echo; done';
/** Links to directories that this user may write, near the top: data sets are neither. */
const LINKS = `cd -P -- "$1" 2>/dev/null || exit 0
find . -maxdepth 2 -name '.?*' -prune -o -type l -print 2>/dev/null | head -n ${
  4 * MOST_LINKS
} | while IFS= read -r link; do
  case \${link##*/} in [Dd]ata|[Dd]ataset*|[Cc]ache|venv|env|node_modules|site-packages) continue ;; esac
  [ -d "$link" ] && [ -w "$link" ] && (cd -P -- "$link" && pwd -P)
done | sort -u | head -n ${MOST_LINKS}`;

/**
 * The same observation with real paths, and with the directories that links in the working
 * directory lead to.
 */
export async function withoutLinks(observation: Observation, cwd: string): Promise<Observation> {
  const { roots, places = [], globs } = observation;
  const given = [...roots, ...places, ...globs.map(({ root }) => root)];
  const [real, linked] = await Promise.all([
    realPaths(given),
    roots.length === 0 ? [] : linesOf(LINKS, cwd),
  ]);
  const realOf = (path: string) => real.get(path) ?? path;
  const ownRoots = roots.map(realOf);
  const isElsewhere = (path: string) =>
    path !== "/" && !ownRoots.some((own) => isBelow(path, own) || isBelow(own, path));
  return {
    ...observation,
    roots: [...new Set(ownRoots)],
    // Other runs may write there, too.
    places: [...new Set([...places.map(realOf), ...linked.filter(isElsewhere)])].filter((path) =>
      path !== "/"
    ),
    globs: globs.map(({ root, glob }) => ({
      root: realOf(root),
      glob: realOf(root) + glob.slice(root.length),
    })),
  };
}

/**
 * The real paths of files and directories, by the given ones; those whose directory does not exist
 * are missing.
 */
export async function realPaths(paths: readonly string[]): Promise<Map<string, string>> {
  const plain = paths.filter((path) => !path.includes("\n"));
  const lines = plain.length === 0 ? [] : await linesOf(REAL, ...plain);
  return new Map(
    plain.flatMap((path, i): [string, string][] =>
      lines[i]?.startsWith("/") ? [[path, lines[i]]] : []
    ),
  );
}

const isBelow = (path: string, directory: string) =>
  path === directory || path.startsWith(`${directory}/`);

/** None if the file system does not answer in time. */
async function linesOf(script: string, ...words: string[]): Promise<string[]> {
  try {
    const { stdout } = await runProgram(["/bin/sh", "-c", script, "sh", ...words], {
      env: {},
      limitMs: PATIENCE_MS,
    });
    return stdout.split("\n").slice(0, -1);
  } catch (error) {
    if (error instanceof ProgramLate) return [];
    throw error;
  }
}

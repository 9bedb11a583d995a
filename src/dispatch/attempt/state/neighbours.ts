/** Which other runs may write files in a run's working directory. Pure. */
import { withoutTrailingSlashes } from "../../../base/text/trailing_slashes.ts";
import type { Company } from "./connected_proxy.ts";

/**
 * @param cwd the run's working directory. @param others those of all other live runs; at least one
 */
export function companyOf(cwd: string, others: readonly string[]): Company {
  const own = trimmed(cwd);
  const theirs = [...new Set(others.map(trimmed))];
  const below = theirs.filter((other) => isBelow(other, own)).map((other) =>
    other.slice(own.length + 1)
  );
  const same = theirs.includes(own);
  const shared = same || below.length > 0 || theirs.some((other) => isBelow(own, other));
  return { shared, others: theirs.length > 0, neighbours: { same, below } };
}

/** A working directory that the config does not name is the daemon's, and is not known here. */
function isBelow(inner: string, outer: string): boolean {
  return outer !== "" && inner.startsWith(`${outer}/`);
}

function trimmed(path: string): string {
  return withoutTrailingSlashes(path);
}

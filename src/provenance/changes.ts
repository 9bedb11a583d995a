/** What differs between two records of a run's code. Pure. */
import { nodePath } from "../base/node_modules.ts";
import type { CodeRecord, GitState } from "./code_record.ts";
import { isSource } from "./untracked.ts";

const short = (commit: string | null) => commit === null ? "no commit" : commit.slice(0, 9);

/**
 * What of the code at `before` is different `now`: paths, and "commit A..B". Untracked files that
 * are new, and untracked files that are not source code, are outputs of this or other runs and do
 * not count. None for records of different working directories.
 */
export function changesSince(before: CodeRecord, now: CodeRecord): string[] {
  // A run in a copy of its code has the submitted one.
  if (before.cwd !== now.cwd) return [];
  const changed = new Set<string>();
  const words = new Map(now.words.map(({ path, sha256 }) => [path, sha256]));
  for (const { path, sha256 } of before.words) {
    if (words.get(path) !== sha256) changed.add(belowRoot(before, path));
  }
  const [a, b] = [before.git, now.git];
  if (a === null || b === null || a.root !== b.root) return [...changed].sort();
  if (a.commit !== b.commit) {
    return [`commit ${short(a.commit)}..${short(b.commit)}`, ...[...changed].sort()];
  }
  for (const path of trackedDifferences(a, b)) changed.add(path);
  const untracked = new Map(b.files.map((file) => [file.path, file]));
  for (const { path, change, sha256 } of a.files) {
    if (change === "untracked" && isSource(path) && untracked.get(path)?.sha256 !== sha256) {
      changed.add(path);
    }
  }
  return [...changed].sort();
}

function trackedDifferences(a: GitState, b: GitState): string[] {
  const tracked = ({ files }: GitState) =>
    new Map(
      files.filter(({ change }) => change !== "untracked").map((file) => [file.path, file.sha256]),
    );
  const [before, now] = [tracked(a), tracked(b)];
  return [...new Set([...before.keys(), ...now.keys()])].filter((path) =>
    before.get(path) !== now.get(path)
  );
}

/** As the repository names it. */
function belowRoot({ cwd, git }: CodeRecord, path: string): string {
  const absolute = nodePath().posix.resolve(cwd, path);
  return git !== null && absolute.startsWith(`${git.root}/`)
    ? absolute.slice(git.root.length + 1)
    : path;
}

const NAMED = 2;

/** "train.py, model.py and 3 more"; "" for none. */
export function changedWords(changed: readonly string[]): string {
  if (changed.length === 0) return "";
  const more = changed.length - NAMED;
  return `${changed.slice(0, NAMED).map((path) => path.slice(0, 100)).join(", ")}${
    more > 0 ? ` and ${more} more` : ""
  }`;
}

/**
 * Files that are not the same in two records, with what each says of it; null: nothing, the file is
 * the commit's.
 */
export function fileDifferences(
  a: readonly { path: string; change: string; sha256: string }[],
  b: readonly { path: string; change: string; sha256: string }[],
): { path: string; a: string | null; b: string | null }[] {
  const [first, second] = [a, b].map((files) => new Map(files.map((file) => [file.path, file])));
  const words = (file?: { change: string; sha256: string }) =>
    file === undefined ? null : `${file.change} ${file.sha256.slice(0, 12)}`;
  return [...new Set([...first!.keys(), ...second!.keys()])].sort().flatMap((path) => {
    const [x, y] = [first!.get(path), second!.get(path)];
    return x?.sha256 === y?.sha256 ? [] : [{ path, a: words(x), b: words(y) }];
  });
}

export interface PackageDifference {
  name: string;
  a: string | null;
  b: string | null;
}

export function packageDifferences(
  a: readonly (readonly [string, string])[],
  b: readonly (readonly [string, string])[],
): PackageDifference[] {
  const [first, second] = [new Map(a), new Map(b)];
  return [...new Set([...first.keys(), ...second.keys()])].sort()
    .map((name) => ({ name, a: first.get(name) ?? null, b: second.get(name) ?? null }))
    .filter(({ a, b }) => a !== b);
}

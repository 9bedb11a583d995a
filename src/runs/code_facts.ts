/**
 * What is said of a run's code and environment, for `mosaic show --code`, the page, reports and
 * agents. Pure.
 */
import { count, localTime } from "../base/text/format.ts";
import { hideSecretArguments } from "../base/text/secrets.ts";
import { changesSince } from "../provenance/changes.ts";
import type { AttemptsCode } from "../provenance/code_record.ts";
import { commandWords } from "./command_words.ts";

export interface CodeFact {
  name: string;
  text: string;
}

export const NO_CODE =
  "Nothing is recorded of this run's code: it began outside of a git repository and named no source file, was submitted with " +
  "--code off, or by an earlier version.";

/** Program and arguments, with secrets hidden. */
export function shownWords(config: unknown): string[] {
  return hideSecretArguments(commandWords(config)).map(String);
}

/** The whole command as a shell would read it, with secrets hidden. */
export function commandText(config: unknown): string {
  return shownWords(config).map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
  )
    .join(" ");
}

/** Of the submission, or of the first attempt that has a record; none if nothing is recorded. */
export function codeFacts(config: unknown, records: readonly AttemptsCode[]): CodeFact[] {
  const [first] = records;
  if (first === undefined) return [];
  const { attempt, at, code: { cwd, git, words, problems } } = first;
  return stated([
    ["command", commandText(config)],
    ["directory", cwd],
    [
      "recorded",
      `${attempt === 0 ? "at submission" : `at the start of attempt ${attempt}`}, ${localTime(at)}`,
    ],
    ["repository", git?.root ?? "none"],
    ["commit", git === null ? "" : git.commit ?? "none yet"],
    ["branch", git?.branch ?? ""],
    ["remote", git?.remote ?? ""],
    [
      "files",
      words.map(({ path, sha256 }) => `${path} (sha256 ${sha256.slice(0, 12)})`).join(", "),
    ],
    ["changed later", changedLater(records)],
    ["not found out", problems.join("; ")],
  ]);
}

export function environmentFacts([first]: readonly AttemptsCode[]): CodeFact[] {
  if (first === undefined) return [];
  const { interpreter, driver, cuda, host, kernel, packages } = first.environment;
  return stated([
    ["host", `${host}, Linux ${kernel}`],
    [
      "interpreter",
      interpreter === null ? "" : `${interpreter.path} ${interpreter.version ?? ""}`.trim(),
    ],
    ["NVIDIA driver", driver ?? ""],
    ["CUDA", cuda ?? ""],
    ["packages", packages.length === 0 ? "" : count(packages.length)],
  ]);
}

function stated(facts: readonly (readonly [string, string])[]): CodeFact[] {
  return facts.filter(([, text]) => text !== "").map(([name, text]) => ({ name, text }));
}

const MOST_CHANGES = 10;

/** "model.py, train.py before attempt 1". */
function changedLater([first, ...later]: readonly AttemptsCode[]): string {
  return later.map(({ attempt, code }) => ({ attempt, changes: changesSince(first!.code, code) }))
    .filter(({ changes }) => changes.length > 0)
    .map(({ attempt, changes }) =>
      `${changes.slice(0, MOST_CHANGES).join(", ")} before attempt ${attempt}`
    ).join("; ");
}

/**
 * One line each for a table of several runs: commit, changed files, interpreter, and packages in
 * which they differ.
 */
export function codeDifferences(
  codes: readonly (AttemptsCode | undefined)[],
): { name: string; values: string[] }[] {
  if (codes.every((code) => code === undefined)) return [];
  const row = (name: string, value: (code: AttemptsCode) => string) => ({
    name,
    values: codes.map((code) => code === undefined ? "" : value(code)),
  });
  const versions = codes.map((code) => new Map(code?.environment.packages));
  const names = [...new Set(versions.flatMap((packages) => [...packages.keys()]))].sort();
  const differing = names.filter((name) =>
    new Set(codes.flatMap((code, i) => code === undefined ? [] : [versions[i]!.get(name)])).size > 1
  );
  return [
    row("commit", ({ code: { git } }) => git?.commit ?? ""),
    row("branch", ({ code: { git } }) => git?.branch ?? ""),
    row(
      "changed files",
      ({ code: { git } }) =>
        (git?.files ?? []).slice(0, MOST_CHANGES).map(({ path }) => path).join(", "),
    ),
    row(
      "interpreter",
      ({ environment: { interpreter } }) =>
        interpreter === null ? "" : `${interpreter.path} ${interpreter.version ?? ""}`,
    ),
    row("host", ({ environment: { host } }) => host),
    ...differing.slice(0, 100).map((name) => ({
      name,
      values: versions.map((packages) => packages.get(name) ?? ""),
    })),
  ].filter(({ values }) => values.some((value) => value !== ""));
}

/** The text of `mosaic show --code`. */
import { count, localTime } from "../../base/text/format.ts";
import { hideSecretArguments } from "../../base/text/secrets.ts";
import { commandWords } from "../../runs/command_words.ts";
import { changesSince } from "../../provenance/changes.ts";
import type { AttemptsCode } from "../../provenance/code_record.ts";
import type { RunDetailJson } from "../../runs/fields/run_types.ts";
import { facts, table } from "./table.ts";
import { escapeControl, paint } from "./text.ts";

const NOT_RECORDED =
  "Nothing is recorded of this run's code: it began outside of a git repository and named no source file, " +
  "was submitted with --code off, or by an earlier version.\n";

export function codeText(run: RunDetailJson, records: readonly AttemptsCode[], color: boolean): string {
  const [first] = records;
  if (first === undefined) return NOT_RECORDED;
  const { code, environment } = first;
  const { git } = code;
  const heading = (text: string) => `\n${paint(text, "bold", color)}\n`;
  const indented = (text: string) => text.replace(/^(?=.)/gm, "  ");
  const main = facts([
    ["command", commandText(run)],
    ["directory", code.cwd],
    [
      "recorded",
      `${first.attempt === 0 ? "at submission" : `at the start of attempt ${first.attempt}`}, ${localTime(first.at)}`,
    ],
    ["repository", git?.root ?? "none"],
    ["commit", git === null ? "" : git.commit ?? "none yet"],
    ["branch", git?.branch ?? ""],
    ["remote", git?.remote ?? ""],
    ["files", code.words.map(({ path, sha256 }) => `${path} (sha256 ${sha256.slice(0, 12)})`).join(", ")],
    [
      "changed later",
      records.slice(1).map((later) => [later.attempt, changesSince(code, later.code)] as const)
        .filter(([, changes]) => changes.length > 0)
        .map(([attempt, changes]) => `${changes.slice(0, 10).join(", ")} before attempt ${attempt}`).join("; "),
    ],
    ["not found out", code.problems.join("; ")],
  ], color);
  const changed = table(
    [{ name: "change", text: (f) => f.change }, { name: "path", text: (f) => f.path }],
    git?.files ?? [],
    { width: undefined, color, heading: false },
  );
  const left = table(
    [{ name: "path", text: (f) => f.path }, { name: "why", text: (f) => f.why }],
    git?.left_out ?? [],
    { width: undefined, color, heading: false },
  );
  const { interpreter, driver, cuda, host, kernel, packages, sources } = environment;
  const place = facts([
    ["host", `${host}, Linux ${kernel}`],
    ["interpreter", interpreter === null ? "" : `${interpreter.path} ${interpreter.version ?? ""}`],
    ["NVIDIA driver", driver ?? ""],
    ["CUDA", cuda ?? ""],
    ["packages", packages.length === 0 ? "" : count(packages.length)],
  ], color);
  const list = packages.map(([name, version]) =>
    escapeControl(`${name} ${version}${sources[name] === undefined ? "" : `  ${sources[name]}`}`) + "\n"
  ).join("");
  const masked = git?.masked.length ? `secrets are masked in ${git.masked.join(", ")}` : "";
  return [
    main,
    changed === "" ? "" : `${heading("Differs from the commit (--diff prints how)")}${indented(changed)}`,
    masked === "" ? "" : `  ${escapeControl(masked)}\n`,
    left === "" ? "" : `${heading("Differs, and is not recorded")}${indented(left)}`,
    `${heading("Environment")}${indented(place)}`,
    list === "" ? "" : `${heading("Packages")}${indented(list)}`,
  ].join("");
}

/** The whole command, with secrets hidden. */
export function commandText({ config }: Pick<RunDetailJson, "config">): string {
  return shownWords(config).map((word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)
    .join(" ");
}

export function shownWords(config: unknown): string[] {
  return hideSecretArguments(commandWords(config)).map(String);
}

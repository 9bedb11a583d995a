/** `mosaic diff A B` */
import type { Command } from "commander";
import { configDifferences } from "../../../config/differences.ts";
import { fileDifferences, packageDifferences } from "../../../provenance/changes.ts";
import { differingLines } from "../../../provenance/compared_diffs.ts";
import { parameterDifferences, rowsWithoutSecrets } from "../../../runs/run_differences.ts";
import { valueText } from "../../../runs/parameter_text.ts";
import type { Context } from "../../link/context.ts";
import type { AttemptsCode } from "../../../provenance/code_record.ts";
import { fetchCode } from "../../code/fetch_code.ts";
import { Link } from "../../link/daemon_link.ts";
import { commandText } from "../../../runs/code_facts.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import type { RunDetailJson } from "../../../runs/fields/run_types.ts";
import { table } from "../../text/table.ts";
import { escapeControl, paint, type Style } from "../../text/text.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { manual } from "../../verb/verb_parser.ts";

type Row = { name: string; a: string | null; b: string | null };

interface Differences {
  command: Row[];
  parameters: Row[];
  code: Row[];
  packages: Row[];
  environment: Row[];
  config: Row[];
}

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows what differs between two runs: command, parameters, code, packages, environment, and the rest of their configs. Code " +
        "is what was recorded at the submission (docs/how-to/reproduction.md).",
    )
    .argument("<a>", RUN_ARGUMENT)
    .argument("<b>", RUN_ARGUMENT)
    .option("-p, --patch", "also print the lines in which their changes to the commit differ");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic diff cart-lr-3e-3 cart-lr-1e-2", "why two runs went differently"],
          ["mosaic diff 01K9ZQ @last --patch", "with the lines of code"],
        ],
        exits: { 0: "printed, whether or not anything differs", 4: "no such run" },
      }),
    )
    .action(async (a: string, b: string, flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const sides: Side[] = [];
      for (const run of [a, b]) {
        const detail = runDetailJsonOf(await link.unary(link.methods.getRun, { run }));
        const [code] = await fetchCode(link, detail.run_id, flags["patch"] === true);
        sides.push({ detail, code });
      }
      const [first, second] = sides as [Side, Side];
      const differences = differencesOf(first, second);
      const names = [first.detail, second.detail].map(({ run_id, name }) => ({ run_id, name }));
      const patch = flags["patch"] === true
        ? differingLines(first.code?.diff, second.code?.diff)
        : undefined;
      if (flags["output"] === "json") {
        const shown = {
          a: names[0],
          b: names[1],
          ...differences,
          ...(patch === undefined ? {} : { patch }),
        };
        context.out.write(`${JSON.stringify(shown, null, 2)}\n`);
        return;
      }
      context.out.write(text(first, second, differences, patch, context));
    });
}

interface Side {
  detail: RunDetailJson;
  /** Undefined: nothing is recorded. */
  code: AttemptsCode | undefined;
}

function row(name: string, a: string | null, b: string | null): Row[] {
  return a === b ? [] : [{ name, a, b }];
}

function differencesOf({ detail: a, code: x }: Side, { detail: b, code: y }: Side): Differences {
  const [gitA, gitB] = [x?.code.git ?? null, y?.code.git ?? null];
  const [envA, envB] = [x?.environment, y?.environment];
  const parameters = parameterDifferences([a, b]).map(({ name, values: [p, q] }) => ({
    name,
    a: p === undefined ? null : valueText(p),
    b: q === undefined ? null : valueText(q),
  }));
  const known = new Set(parameters.map(({ name }) => name));
  const both = x !== undefined && y !== undefined;
  const interpreter = (of: typeof envA) =>
    of?.interpreter ? `${of.interpreter.path} ${of.interpreter.version ?? ""}`.trim() : null;
  return {
    command: row("command", commandText(a.config), commandText(b.config)),
    parameters,
    code: !both
      ? row("record", x === undefined ? null : "recorded", y === undefined ? null : "recorded")
      : [
        ...row(
          "repository",
          gitA?.remote ?? gitA?.root ?? null,
          gitB?.remote ?? gitB?.root ?? null,
        ),
        ...row("commit", gitA?.commit ?? null, gitB?.commit ?? null),
        ...row("branch", gitA?.branch ?? null, gitB?.branch ?? null),
        ...fileDifferences(gitA?.files ?? [], gitB?.files ?? []).map(({ path, a, b }) => ({
          name: path,
          a,
          b,
        })),
        // In a repository they are the commit's, or among the files above.
        ...(gitA !== null && gitB !== null ? [] : fileDifferences(
          x.code.words.map((word) => ({ ...word, change: "sha256" })),
          y.code.words.map((word) => ({ ...word, change: "sha256" })),
        )).map(({ path, a, b }) => ({ name: path, a, b })),
      ],
    packages: both ? packageDifferences(envA!.packages, envB!.packages) : [],
    environment: !both ? [] : [
      ...row("interpreter", interpreter(envA), interpreter(envB)),
      ...row("NVIDIA driver", envA!.driver, envB!.driver),
      ...row("CUDA", envA!.cuda, envB!.cuda),
      ...row("host", envA!.host, envB!.host),
      ...row("kernel", envA!.kernel, envB!.kernel),
      ...row("directory", x.code.cwd, y.code.cwd),
    ],
    config: rowsWithoutSecrets(configDifferences([a, b]))
      .filter(({ name }) =>
        !BELONGS_TO_ONE.test(name) && !SHOWN.test(name) &&
        !known.has(name.replace(/^.*\.config\./, ""))
      )
      .map(({ name, values: [p, q] }) => ({ name, a: p ?? null, b: q ?? null })),
  };
}

/** Each run has its own. */
const BELONGS_TO_ONE = /^metadata\.submission\b|(?:^|\.)run_id$/;
/** Parts of the command. */
const SHOWN = /^(?:entry_point|arguments|metadata\.worker\.(?:script|arguments|cwd))\b/;

const TITLES: [keyof Differences, string][] = [
  ["command", "Command"],
  ["parameters", "Parameters"],
  ["code", "Code"],
  ["packages", "Packages"],
  ["environment", "Environment"],
  ["config", "Config"],
];

function text(
  a: Side,
  b: Side,
  differences: Differences,
  patch: string[] | undefined,
  { terminal: { color } }: Context,
): string {
  const named = (letter: string, { detail }: Side, style: Style) =>
    `${paint(letter, style, color)}  ${detail.run_id}  ${escapeControl(detail.name)}\n`;
  const parts = TITLES.flatMap(([key, title]) => {
    const rows = differences[key];
    if (rows.length === 0) return [];
    const lines = table(
      [
        { name: "name", heading: "", text: (r) => r.name },
        { name: "a", text: (r) => r.a ?? "-", style: () => "red" },
        { name: "b", text: (r) => r.b ?? "-", style: () => "green" },
      ],
      rows,
      { width: undefined, color },
    );
    return [`\n${paint(title, "bold", color)}\n${lines.replace(/^(?=.)/gm, "  ")}`];
  });
  const unrecorded = [a, b].filter(({ code }) => code === undefined).map(({ detail }) =>
    detail.name
  );
  const note = unrecorded.length === 0
    ? ""
    : `\nNo code is recorded of ${
      escapeControl(unrecorded.join(" and "))
    }, so code, packages and environment are not compared.\n`;
  const lines = patch === undefined || patch.length === 0
    ? ""
    : `\n${paint("Lines", "bold", color)}\n${
      patch.map((line) => `${escapeControl(line)}\n`).join("")
    }`;
  const same = parts.length === 0 && note === "" ? "\nNothing that is recorded differs.\n" : "";
  return [named("A", a, "red"), named("B", b, "green"), ...parts, lines, note, same].join("");
}

/** The text of `mosaic show --code`. */
import type { AttemptsCode } from "../../provenance/code_record.ts";
import { type CodeFact, codeFacts, environmentFacts, NO_CODE } from "../../runs/code_facts.ts";
import type { RunDetailJson } from "../../runs/fields/run_types.ts";
import { facts, table } from "./table.ts";
import { escapeControl, paint } from "./text.ts";

export function codeText(
  { config }: RunDetailJson,
  records: readonly AttemptsCode[],
  color: boolean,
): string {
  const [first] = records;
  if (first === undefined) return `${NO_CODE}\n`;
  const { code: { git }, environment: { packages, sources } } = first;
  const heading = (text: string) => `\n${paint(text, "bold", color)}\n`;
  const indented = (text: string) => text.replace(/^(?=.)/gm, "  ");
  const told = (list: readonly CodeFact[]) =>
    facts(list.map(({ name, text }) => [name, text] as const), color);
  const options = { width: undefined, color, heading: false };
  const changed = table(
    [{ name: "change", text: (f) => f.change }, { name: "path", text: (f) => f.path }],
    git?.files ?? [],
    options,
  );
  const left = table(
    [{ name: "path", text: (f) => f.path }, { name: "why", text: (f) => f.why }],
    git?.left_out ?? [],
    options,
  );
  const list = packages.map(([name, version]) =>
    escapeControl(`${name} ${version}${sources[name] === undefined ? "" : `  ${sources[name]}`}`) +
    "\n"
  ).join("");
  const masked = git?.masked.length ? `secrets are masked in ${git.masked.join(", ")}` : "";
  return [
    told(codeFacts(config, records)),
    changed === ""
      ? ""
      : `${heading("Differs from the commit (--diff prints how)")}${indented(changed)}`,
    masked === "" ? "" : `  ${escapeControl(masked)}\n`,
    left === "" ? "" : `${heading("Differs, and is not recorded")}${indented(left)}`,
    `${heading("Environment")}${indented(told(environmentFacts(records)))}`,
    list === "" ? "" : `${heading("Packages")}${indented(list)}`,
  ].join("");
}

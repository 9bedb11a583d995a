/** docs/reference/commands.md: every verb with its options, from what `--help` prints. */
import type { Help, HelpItem } from "./help_text.ts";
import { anchorOf } from "../../../src/manual/sections.ts";
import { FURTHER_GROUPS, GROUPS } from "../../../src/cli/verbs.ts";
import { allHelps, type VerbHelp } from "./helps.ts";
import { code, escaped, table } from "./markdown.ts";

const INTRODUCTION = `# Commands and options

<!-- Written by "deno task gen" from what --help prints; do not edit. -->

\`mosaic COMMAND --help\` prints the same. [The command line](cli.md) says what scripts may rely on.
`;

/** Said once, at the top, if a verb says of them just this. */
const COMMON_LISTS = ["Options", "Environment", "Exit codes"] as const;
/** A verb that takes so many of another's options refers to it. */
const SHARED_AT_LEAST = 10;

export async function commandsPage(): Promise<string> {
  const helps = await allHelps();
  const common = commonItems(helps);
  const groups = [...GROUPS, ...FURTHER_GROUPS].map((group) => {
    const verbs = [...new Set(helps.map(({ verb }) => verb))].filter((verb) =>
      verb.group === group
    );
    const rows = verbs.map(({ name, now, summary, aliases = [] }) => [
      [name, ...aliases].map((word) => `[${code(word)}](#mosaic-${name})`).join(", "),
      now === undefined ? escaped(summary) : `now: ${code(`mosaic ${now}`)}`,
    ]);
    return `**${group}**\n\n${table(["Command", ""], rows)}`;
  });
  const shared = COMMON_LISTS.map((title) => `**${title}**\n\n${list(title, common.get(title)!)}`);
  return [
    INTRODUCTION,
    ...groups,
    "## All commands\n",
    "What a command below takes or returns in just this sense is not listed again there.\n",
    ...shared,
    ...helps.map((one, at) => section(one, common, helps.slice(0, at))),
  ].join("\n");
}

/** The items that most verbs have in the same words. */
function commonItems(helps: readonly VerbHelp[]): Map<string, HelpItem[]> {
  return new Map(COMMON_LISTS.map((title) => {
    const counted = new Map<string, [number, HelpItem]>();
    for (const { help } of helps) {
      for (const item of help.lists.get(title) ?? []) {
        const key = `${item.term}\n${item.meaning}`;
        counted.set(key, [(counted.get(key)?.[0] ?? 0) + 1, item]);
      }
    }
    const most = [...counted.values()].filter(([count, { term }]) =>
      count >= SHARED_AT_LEAST && !term.startsWith("-o")
    );
    const items = most.map(([, item]) => item);
    return [title, items.sort((a, b) => Number(a.term) - Number(b.term) || 0)];
  }));
}

const same = (a: HelpItem) => (b: HelpItem) => a.term === b.term && a.meaning === b.meaning;

function section(
  { verb, name, help }: VerbHelp,
  common: Map<string, HelpItem[]>,
  before: readonly VerbHelp[],
): string {
  const parts = [`## mosaic ${name}\n`];
  if (verb.now !== undefined) {
    return [...parts, `An older word for ${code(`mosaic ${verb.now}`)}.\n`].join("\n");
  }
  const [first, ...paragraphs] = help.paragraphs;
  if (first !== undefined) parts.push(`${escaped(first)}\n`);
  parts.push("```\n" + help.usage.join("\n") + "\n```\n");
  parts.push(...paragraphs.map((text) => `${escaped(text)}\n`));
  for (const [title, items] of help.lists) {
    if (title === "Commands") {
      const below = items.map(({ term }) => `${name} ${term.split(" ")[0]}`);
      const links = below.map((one) => `[${code(one)}](#${anchorOf(`mosaic ${one}`)})`);
      parts.push(`Commands: ${links.join(", ")}.\n`);
      continue;
    }
    const own = items.filter((item) => !(common.get(title) ?? []).some(same(item)));
    const [from, shared] = sharedWith(title, own, before);
    const rest = own.filter((item) => !shared.includes(item));
    if (rest.length > 0) {
      if (HEADS[title] === undefined) parts.push(`${escaped(title)}:\n`);
      parts.push(list(title, rest));
    }
    if (shared.length > 0) {
      const terms = shared.map(({ term }) => code(term)).join(", ");
      parts.push(`As for [mosaic ${from}](#${anchorOf(`mosaic ${from}`)}): ${terms}.\n`);
    }
  }
  if (help.examples.length > 0) parts.push(examples(help));
  return parts.join("\n");
}

/** The earlier verb that has most of these items, if it has many. */
function sharedWith(
  title: string,
  items: readonly HelpItem[],
  before: readonly VerbHelp[],
): [from: string, shared: readonly HelpItem[]] {
  const found = before.map(({ name, help }): [string, HelpItem[]] => [
    name,
    items.filter((item) => help.lists.get(title)?.some(same(item))),
  ]);
  const most = found.reduce((a, b) => b[1].length > a[1].length ? b : a, ["", []]);
  return most[1].length >= SHARED_AT_LEAST ? most : ["", []];
}

const HEADS: Record<string, string> = {
  Arguments: "Argument",
  Options: "Option",
  Commands: "Command",
  Environment: "Variable",
  "Exit codes": "Code",
};

function list(title: string, items: readonly HelpItem[]): string {
  return table(
    [HEADS[title] ?? "Option", ""],
    items.map(({ term, meaning }) => [code(term), escaped(meaning)]),
  );
}

function examples({ examples }: Help): string {
  const lines = examples.map(({ term, meaning }) => `# ${meaning}\n${term}`);
  return "```sh\n" + lines.join("\n") + "\n```\n";
}

/** The text that `--help` prints, taken apart: the reference is made of it, and man pages of that. */

export interface HelpItem {
  term: string;
  meaning: string;
}

export interface Help {
  usage: string[];
  /** Below the usage, and between options and examples. */
  paragraphs: string[];
  /** By title: Arguments, Options and further groups of them, Commands, Environment, Exit codes. */
  lists: Map<string, HelpItem[]>;
  /** A command line, and what it does. */
  examples: HelpItem[];
}

const USAGE = /^Usage: (.*)$/;
const TITLE = /^([A-Z].*):$/;

/** @param text of `mosaic VERB --help`, at any width */
export function parseHelp(text: string): Help {
  const help: Help = { usage: [], paragraphs: [], lists: new Map(), examples: [] };
  let title = "";
  let paragraph = false;
  const lines = text.trimEnd().split("\n");
  for (const [at, line] of lines.entries()) {
    const usage = USAGE.exec(line)?.[1];
    const begin = TITLE.exec(line)?.[1];
    if (usage !== undefined) {
      title = "Usage";
      help.usage.push(usage.trim());
    } else if (begin !== undefined && lines[at + 1]?.startsWith("  ")) {
      title = begin;
      if (title !== "Examples") help.lists.set(title, []);
    } else if (line.trim() === "") {
      // Lists begin below their titles; what follows an empty line without a title is text.
      title = "";
      paragraph = false;
    } else if (title === "Usage") {
      help.usage.push(line.trim());
    } else if (title === "Examples") {
      readExample(help.examples, line);
    } else if (title !== "") {
      readItem(help.lists.get(title)!, line);
    } else if (paragraph) {
      help.paragraphs[help.paragraphs.length - 1] += ` ${line.trim()}`;
    } else {
      help.paragraphs.push(line.trim());
      paragraph = true;
    }
  }
  return help;
}

function readExample(examples: HelpItem[], line: string): void {
  const command = /^ {2}\$ (.*)$/.exec(line)?.[1];
  const last = examples.at(-1);
  if (command !== undefined) examples.push({ term: command, meaning: "" });
  else if (last !== undefined && last.term.endsWith("\\")) last.term += `\n  ${line.trim()}`;
  else if (last !== undefined) last.meaning = joined(last.meaning, line);
}

function readItem(items: HelpItem[], line: string): void {
  const item = /^ {2}(\S.*?)(?: {2,}(.*))?$/.exec(line);
  if (item !== null) items.push({ term: item[1]!, meaning: item[2] ?? "" });
  else if (items.length > 0) items.at(-1)!.meaning = joined(items.at(-1)!.meaning, line);
}

const joined = (before: string, line: string) => `${before} ${line.trim()}`.trim();

/**
 * A page of the manual as a script. Of a block of `console`, each line after "$ " (and "> ", its
 * continuation) is run by a shell, and the lines below it must be in what it prints, in this order;
 * figures, ids, times and curves may differ. A block of `python` is the file that the paragraph
 * before it names first.
 */

export interface PageFile {
  name: string;
  text: string;
}

export interface PageCommand {
  command: string;
  printed: string[];
}

export type PagePart = { file: PageFile } | { command: PageCommand };

export function partsOf(markdown: string): PagePart[] {
  const parts: PagePart[] = [];
  const blocks = markdown.matchAll(/^```(\w+)\n([^]*?)^```$/gm);
  for (const { 1: language, 2: text, index } of blocks) {
    if (language === "python") {
      const before = markdown.slice(0, index).trimEnd().split("\n\n").at(-1)!;
      const name = /`([\w/]+\.py)`/.exec(before)?.[1];
      if (name === undefined) {
        throw new Error(`the paragraph before this block names no file: ${text!.slice(0, 60)}`);
      }
      parts.push({ file: { name, text: text! } });
    } else if (language === "console") {
      parts.push(...commandsOf(text!).map((command) => ({ command })));
    }
  }
  return parts;
}

function commandsOf(block: string): PageCommand[] {
  const commands: PageCommand[] = [];
  for (const line of block.trimEnd().split("\n")) {
    const last = commands.at(-1);
    if (line.startsWith("$ ")) commands.push({ command: line.slice(2), printed: [] });
    else if (last === undefined) throw new Error(`a block begins with output: ${line}`);
    else if (line.startsWith("> ")) last.command += `\n${line.slice(2)}`;
    else last.printed.push(line);
  }
  return commands;
}

/**
 * A line without what differs between two times: figures, ids, paths, curves, the width of columns.
 */
export function comparable(line: string): string {
  return line
    .replace(/\b[0-9A-HJKMNP-TV-Z]{26}\b/g, "ID")
    .replace(/\b01[0-9A-HJKMNP-TV-Z]{8}\b/g, "ID")
    .replace(/\/\S*\//g, "/")
    .replace(/[▁-█⠀-⣿]+/g, "")
    .replace(/-?\b\d[\d.,e+-]*(?:s|m|h| B| KiB)?\b/g, "N")
    .replace(/\s+/g, " ")
    .trim();
}

/** @returns the first line that is wanted and not there, undefined if all are */
export function missingLine(wanted: readonly string[], printed: string): string | undefined {
  const lines = printed.split("\n").map(comparable);
  let from = 0;
  for (const line of wanted.filter((line) => line.trim() !== "")) {
    const at = lines.findIndex((one, i) => i >= from && one.startsWith(comparable(line)));
    if (at < 0) return line;
    from = at + 1;
  }
  return undefined;
}

/**
 * Escapes untrusted text (from workers, configs, names) for terminals. The only place that decides
 * what a terminal may interpret.
 */

// Control characters (also C1), and direction overrides, which change the apparent text.
// deno-lint-ignore no-control-regex
const OBEYED = /[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
// The same, except tabs, newlines and colours (SGR).
const OBEYED_IN_OUTPUT =
  // deno-lint-ignore no-control-regex
  /\x1b\[[0-9;:]{0,64}m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
/** An incomplete colour sequence or line break at the end of a chunk. */
// deno-lint-ignore no-control-regex
const UNFINISHED = /(?:\x1b(?:\[[0-9;:]{0,64})?|(?<!\r)\r+)$/;

function shown(char: string): string {
  return char === "\x7f"
    ? "␡"
    : char < " "
    ? String.fromCharCode(0x2400 + char.charCodeAt(0))
    : "�";
}

/**
 * Escapes control characters for one line: shows them as symbols; tabs and newlines become a space.
 */
export function escapeControl(text: string): string {
  return text.replace(/[\t\n\r]+/g, " ").replace(OBEYED, shown);
}

/**
 * The text as a word of bash, zsh or ksh (`$'…'`) that a terminal shows as it is; undefined if
 * every quoted word would do.
 */
export function spelledWord(text: string): string | undefined {
  if (text.search(OBEYED) < 0) return undefined;
  const spelled = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `$'${text.replace(/[\\']/g, "\\$&").replaceAll("\n", "\\n").replace(OBEYED, spelled)}'`;
}

/** Words for a shell, on one line: what a terminal would obey is spelled out. */
export function shellLine(words: readonly string[]): string {
  return words.map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : spelledWord(word) ?? `'${word.replaceAll("'", `'\\''`)}'`
  ).join(" ");
}

/** Escapes control characters in text of several lines; keeps the line breaks. */
export function escapeControlLines(text: string): string {
  return text.split("\n").map(escapeControl).join("\n");
}

/** What a carriage return does to a line of a program's output: what follows replaces it. */
const REDRAWN = "\r\x1b[K";

/**
 * Escapes a stream of text: passes line breaks and colours, turns a carriage return into a line
 * break, escapes the rest. With `redraws`, for a program's own output, a carriage return begins its
 * line anew, as progress bars mean it.
 */
export class TerminalFilter {
  #unfinished = "";

  constructor(private readonly redraws = false) {}

  pass(text: string): string {
    const all = this.#unfinished + text;
    this.#unfinished = UNFINISHED.exec(all)?.[0] ?? "";
    return all.slice(0, all.length - this.#unfinished.length)
      .replace(/\r+\n?/g, (found) => this.redraws && !found.endsWith("\n") ? "\r" : "\n")
      .replace(
        OBEYED_IN_OUTPUT,
        (found) => found === "\r" ? REDRAWN : found.length > 1 ? found : shown(found),
      );
  }
}

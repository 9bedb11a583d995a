/** Text from elsewhere (a worker, a config, a name) on its way to a terminal: the one place that says what a terminal may obey. */

// Escape sequences begin with a control character; C1 has single ones. Direction overrides show text as another.
// deno-lint-ignore no-control-regex
const OBEYED = /[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
// The same but for tabs, newlines and colours (SGR).
// deno-lint-ignore no-control-regex
const OBEYED_IN_OUTPUT = /\x1b\[[0-9;:]{0,64}m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
/** What the next piece may complete to a colour or to one line break. */
// deno-lint-ignore no-control-regex
const UNFINISHED = /(?:\x1b(?:\[[0-9;:]{0,64})?|(?<!\r)\r+)$/;

function shown(char: string): string {
  return char === "\x7f" ? "␡" : char < " " ? String.fromCharCode(0x2400 + char.charCodeAt(0)) : "�";
}

/** One line, made harmless: what a terminal would obey is shown instead; tabs and newlines become a space. */
export function harmless(text: string): string {
  return text.replace(/[\t\n\r]+/g, " ").replace(OBEYED, shown);
}

/** The same for text of several lines, which stay lines. */
export function harmlessLines(text: string): string {
  return text.split("\n").map(harmless).join("\n");
}

/** A stream of text for a terminal: lines and colours pass, a carriage return begins a new line, everything else is shown. */
export class TerminalFilter {
  #unfinished = "";

  pass(text: string): string {
    const all = this.#unfinished + text;
    this.#unfinished = UNFINISHED.exec(all)?.[0] ?? "";
    return all.slice(0, all.length - this.#unfinished.length)
      .replace(/\r+\n?/g, "\n")
      .replace(OBEYED_IN_OUTPUT, (found) => found.length > 1 ? found : shown(found));
  }
}

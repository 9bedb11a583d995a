/** Decodes the keys that a terminal in raw mode sends. */

const SEQUENCES: Record<string, string> = {
  "\x1b[A": "up",
  "\x1b[B": "down",
  "\x1bOA": "up",
  "\x1bOB": "down",
  "\x1b[5~": "pageup",
  "\x1b[6~": "pagedown",
  "\x1b[H": "home",
  "\x1b[F": "end",
  "\x1b[1~": "home",
  "\x1b[4~": "end",
  "\r": "enter",
  "\n": "enter",
  "\x03": "ctrl-c",
  "\x7f": "backspace",
  "\b": "backspace",
  "\x1b": "escape",
};

/** The names of the keys in one read; ignores unknown sequences. */
export function keysOf(text: string): string[] {
  const keys: string[] = [];
  for (let rest = text; rest !== "";) {
    // deno-lint-ignore no-control-regex
    const sequence = /^\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])/.exec(rest)?.[0] ?? [...rest][0]!;
    const key = SEQUENCES[sequence] ??
      (sequence.length === 1 && sequence >= " " ? sequence : undefined);
    if (key !== undefined) keys.push(key);
    rest = rest.slice(sequence.length);
  }
  return keys;
}

/**
 * Values as Python programs print them: JSON, `repr` of dicts, lists and numbers, and NumPy's and
 * PyTorch's forms of numbers (`np.float32(0.5)`, `array([12.], dtype=float32)`, `tensor(0.3)`).
 * Bounded: one pass, a limited depth.
 */
import { parsedJson } from "../../base/text/json_text.ts";
import type { ParamValue } from "./tracker_records.ts";

const MAX_DEPTH = 64;
const NUMBER = /[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const PLAIN_NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const WORD = /[A-Za-z_][\w.]*/y;
const BLANKS = /\s*/y;

const WORDS: { readonly [word: string]: ParamValue } = {
  True: true,
  true: true,
  False: false,
  false: false,
  None: null,
  null: null,
  nan: NaN,
  NaN: NaN,
  inf: Infinity,
  Infinity: Infinity,
};

/** A real number as printed by Python or NumPy; undefined if the text is no number. */
export function numberOfText(text: string): number | undefined {
  if (PLAIN_NUMBER.test(text)) return Number(text);
  const word = /^([+-]?)(nan|inf|infinity)$/i.exec(text);
  if (word === null) return undefined;
  if (word[2]!.toLowerCase() === "nan") return NaN;
  return word[1] === "-" ? -Infinity : Infinity;
}

/** A parameter from its text: a number, a flag, None or a text. */
export function scalarOfText(text: string): ParamValue {
  const number = numberOfText(text);
  if (number !== undefined) return number;
  if (text === "True" || text === "true") return true;
  if (text === "False" || text === "false") return false;
  return text === "None" || text === "null" ? null : text;
}

class Unreadable extends Error {}

class Parser {
  readonly text: string;
  at = 0;

  constructor(text: string) {
    this.text = text;
  }

  blanks(): void {
    const code = this.text.charCodeAt(this.at);
    if (code > 32 && code !== 0xfeff) return;
    BLANKS.lastIndex = this.at;
    BLANKS.exec(this.text);
    this.at = BLANKS.lastIndex;
  }

  take(token: string): boolean {
    this.blanks();
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  value(depth: number): ParamValue {
    if (depth > MAX_DEPTH) throw new Unreadable();
    this.blanks();
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.list("]", depth);
      case "(":
        return this.list(")", depth);
      case '"':
      case "'":
        return this.string();
    }
    return this.number() ?? this.word(depth);
  }

  object(depth: number): ParamValue {
    this.at++;
    const entries: [string, ParamValue][] = [];
    while (!this.take("}")) {
      const key = this.value(depth + 1);
      if (typeof key !== "string" && typeof key !== "number" && typeof key !== "boolean") {
        throw new Unreadable();
      }
      if (!this.take(":")) throw new Unreadable();
      entries.push([String(key), this.value(depth + 1)]);
      if (this.take(",")) continue;
      if (this.take("}")) break;
      throw new Unreadable();
    }
    // fromEntries defines properties, so that a key "__proto__" is a normal key.
    return Object.fromEntries(entries);
  }

  list(close: string, depth: number): ParamValue[] {
    this.at++;
    const items: ParamValue[] = [];
    while (!this.take(close)) {
      items.push(this.value(depth + 1));
      if (this.take(",")) continue;
      if (this.take(close)) break;
      // NumPy prints arrays without commas.
      if (close !== "]" || !/\s/.test(this.text[this.at - 1] ?? "")) throw new Unreadable();
    }
    return items;
  }

  string(): string {
    const quote = this.text[this.at]!;
    let value = "";
    let from = ++this.at;
    for (;;) {
      const char = this.text[this.at];
      if (char === undefined) throw new Unreadable();
      if (char === quote) break;
      if (char !== "\\") {
        this.at++;
        continue;
      }
      value += this.text.slice(from, this.at) + this.escape();
      from = this.at;
    }
    value += this.text.slice(from, this.at);
    this.at++;
    return value;
  }

  /** At a backslash. */
  escape(): string {
    const char = this.text[this.at + 1] ?? "";
    this.at += 2;
    const digits = { x: 2, u: 4, U: 8 }[char];
    if (digits !== undefined) {
      const hex = this.text.slice(this.at, this.at + digits);
      const code = /^[0-9a-fA-F]+$/.test(hex) && hex.length === digits ? parseInt(hex, 16) : -1;
      if (code < 0 || code > 0x10ffff) throw new Unreadable();
      this.at += digits;
      return digits === 4 ? String.fromCharCode(code) : String.fromCodePoint(code);
    }
    return { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0" }[char] ?? char;
  }

  number(): number | undefined {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (found === null) return undefined;
    this.at = NUMBER.lastIndex;
    return Number(found[0].replaceAll("_", ""));
  }

  word(depth: number): ParamValue {
    const minus = this.text[this.at] === "-";
    if (minus || this.text[this.at] === "+") this.at++;
    WORD.lastIndex = this.at;
    const word = WORD.exec(this.text)?.[0];
    if (word === undefined) throw new Unreadable();
    this.at += word.length;
    const known = Object.hasOwn(WORDS, word) ? WORDS[word]! : undefined;
    if (known !== undefined) {
      if (!minus) return known;
      if (typeof known !== "number") throw new Unreadable();
      return -known;
    }
    if (minus || this.text[this.at] !== "(") throw new Unreadable();
    return this.call(depth);
  }

  /** `array([12.], dtype=float32)`: the first argument. */
  call(depth: number): ParamValue {
    this.at++;
    let value: ParamValue | undefined;
    while (!this.take(")")) {
      this.blanks();
      const named =
        /[A-Za-z_]\w*\s*=\s*(?:[A-Za-z_][\w.]*(?=\s*[,)])|<[^<>]{0,100}>|(?=['"[({\d-]))/y;
      named.lastIndex = this.at;
      const found = named.exec(this.text);
      if (found !== null) {
        this.at = named.lastIndex;
        if (/=\s*$/.test(found[0])) this.value(depth + 1);
      } else {
        const argument = this.value(depth + 1);
        value ??= argument;
      }
      if (this.take(",")) continue;
      if (this.take(")")) break;
      throw new Unreadable();
    }
    if (value === undefined) throw new Unreadable();
    return value;
  }
}

/** The single value of a text; undefined if the text has none, or more. Never throws. */
export function literalOf(text: string): ParamValue | undefined {
  const parser = new Parser(text);
  try {
    const value = parser.value(0);
    parser.blanks();
    return parser.at === text.length ? value : undefined;
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

/** JSON as Python writes it: NaN and infinities may be bare words. */
export function jsonOf(text: string): ParamValue | undefined {
  try {
    return parsedJson(text) as ParamValue;
  } catch {
    // Only a text with such a word can be valid for Python.
    return /\b(?:NaN|Infinity)\b/.test(text) ? literalOf(text) : undefined;
  }
}

/** The number of a value: itself, or the only element of a list (`[12.]`). Flags are no numbers. */
export function numberOfValue(value: ParamValue | undefined): number | undefined {
  for (let i = 0; i < 4 && Array.isArray(value) && value.length === 1; i++) value = value[0];
  return typeof value === "number" ? value : undefined;
}

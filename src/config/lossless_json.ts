/**
 * A JSON reader and writer that preserve everything a digest depends on: integers of any size, the
 * difference between `1` and `1.0`, `NaN` and the infinities (which Python writes), and the order
 * of keys. A repeated key keeps its first position and its last value. Numbers are written as
 * Python writes them, because digests are compared with those of the original.
 */
import { MosaicError } from "../base/errors.ts";

/** A number with the text Python gives it: digits for an integer, `repr` for a float. */
export class JsonNumber {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }
  static integer(digits: string | number): JsonNumber {
    // Python reads "-0" as the integer 0.
    return new JsonNumber(digits === "-0" ? "0" : String(digits));
  }
  static float(value: number): JsonNumber {
    return new JsonNumber(pythonFloat(value));
  }
  get value(): number {
    if (this.text === "inf") return Infinity;
    if (this.text === "-inf") return -Infinity;
    return Number(this.text === "nan" ? NaN : this.text);
  }
}

export type JsonValue = null | boolean | string | JsonNumber | JsonValue[] | JsonObject;
/**
 * Keys in the sender's order; a plain object would move keys that look like indexes to the front.
 */
export type JsonObject = Map<string, JsonValue>;

/**
 * How deep arrays and objects may nest, and how many digits an integer may have (Python's own
 * bound).
 */
const MAX_DEPTH = 200;
const MAX_DIGITS = 4300;

/** `repr(float)`: shortest digits that read back, exponent form below 1e-4 and from 1e16 up. */
function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [mantissa, exponentText] = value.toExponential().split("e") as [string, string];
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const sign = value < 0 ? "-" : "";
  const digits = mantissa.replace(/[-.]/g, "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonValue {
    if (this.#text.charCodeAt(0) === 0xfeff) this.#at = 1;
    this.#space();
    const value = this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) this.#fail("there is more text after the value");
    return value;
  }

  #fail(what: string): never {
    const before = this.#text.slice(0, this.#at).split("\n");
    throw new MosaicError(
      "invalid_argument",
      `the config is not JSON: ${what} (line ${before.length}, column ${
        before.at(-1)!.length + 1
      })`,
    );
  }

  #space(): void {
    for (;;) {
      const c = this.#text.charCodeAt(this.#at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.#at++;
    }
  }

  #value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) this.#fail(`it nests more than ${MAX_DEPTH} levels`);
    const c = this.#text[this.#at];
    if (c === "{") return this.#object(depth);
    if (c === "[") return this.#array(depth);
    if (c === '"') return this.#string();
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    return this.#number();
  }

  #number(): JsonNumber {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#text);
    if (match === null) {
      const found = this.#at < this.#text.length ? JSON.stringify(this.#text[this.#at]) : "the end";
      this.#fail(`expected a value, found ${found}`);
    }
    this.#at += match[0].length;
    if (match[1] !== undefined || match[2] !== undefined) return JsonNumber.float(Number(match[0]));
    if (match[0].length > MAX_DIGITS) this.#fail(`an integer has more than ${MAX_DIGITS} digits`);
    return JsonNumber.integer(match[0]);
  }

  #string(): string {
    const start = ++this.#at;
    for (;;) {
      const c = this.#text.charCodeAt(this.#at);
      if (c === 0x22) break;
      if (Number.isNaN(c)) this.#fail("a string does not end");
      if (c < 0x20) this.#fail("a string holds a control character that is not escaped");
      this.#at += c === 0x5c ? 2 : 1;
    }
    const raw = this.#text.slice(start, this.#at);
    let value = raw;
    if (raw.includes("\\")) {
      try {
        value = JSON.parse(`"${raw}"`);
      } catch {
        this.#fail("a string holds an escape that JSON does not have");
      }
    }
    // Half of a surrogate pair cannot be encoded in UTF-8, so it has no digest.
    if (!value.isWellFormed()) this.#fail("a string holds half of a surrogate pair");
    this.#at++;
    return value;
  }

  #array(depth: number): JsonValue[] {
    const values: JsonValue[] = [];
    this.#at++;
    this.#space();
    if (this.#text[this.#at] === "]") {
      this.#at++;
      return values;
    }
    for (;;) {
      this.#space();
      values.push(this.#value(depth + 1));
      if (this.#separator("]")) return values;
    }
  }

  #object(depth: number): JsonObject {
    const object: JsonObject = new Map();
    this.#at++;
    this.#space();
    if (this.#text[this.#at] === "}") {
      this.#at++;
      return object;
    }
    for (;;) {
      this.#space();
      if (this.#text[this.#at] !== '"') this.#fail("expected a key in double quotes");
      const key = this.#string();
      this.#space();
      if (this.#text[this.#at] !== ":") {
        this.#fail(`expected ":" after the key ${JSON.stringify(key)}`);
      }
      this.#at++;
      this.#space();
      object.set(key, this.#value(depth + 1));
      if (this.#separator("}")) return object;
    }
  }

  /** Takes "," or the closing bracket; true for the latter. */
  #separator(closing: string): boolean {
    this.#space();
    const c = this.#text[this.#at];
    if (c !== "," && c !== closing) this.#fail(`expected "," or "${closing}"`);
    this.#at++;
    return c === closing;
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const WORDS: [string, JsonValue][] = [
  ["null", null],
  ["true", true],
  ["false", false],
  ["NaN", JsonNumber.float(NaN)],
  ["Infinity", JsonNumber.float(Infinity)],
  ["-Infinity", JsonNumber.float(-Infinity)],
];

/** @throws {MosaicError} `invalid_argument` with line and column. */
export function readJson(text: string): JsonValue {
  return new Reader(text).document();
}

export interface WriteOptions {
  /** Sorts the keys of every object, by code point as Python does. */
  sortKeys?: boolean;
  /** Escapes everything beyond ASCII. */
  ascii?: boolean;
  /** Indents by two spaces. */
  indent?: boolean;
  /**
   * How NaN and the infinities are written: as the marker that digests use (valid JSON), or bare as
   * Python does.
   */
  nonFinite?: "marker" | "bare";
}

const BARE: Record<string, string> = { nan: "NaN", inf: "Infinity", "-inf": "-Infinity" };

export function writeJson(value: JsonValue, options: WriteOptions = {}, level = 0): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoted(value, options.ascii ?? false);
  if (value instanceof JsonNumber) {
    if (!Object.hasOwn(BARE, value.text)) return value.text;
    return options.nonFinite === "bare"
      ? BARE[value.text]!
      : `{"__type__":"float","value":"${value.text}"}`;
  }
  const parts = Array.isArray(value)
    ? value.map((item) => writeJson(item, options, level + 1))
    : entriesOf(value, options).map(([key, item]) =>
      `${quoted(key, options.ascii ?? false)}:${options.indent ? " " : ""}${
        writeJson(item, options, level + 1)
      }`
    );
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!options.indent || parts.length === 0) return open + parts.join(",") + close;
  const margin = `\n${"  ".repeat(level + 1)}`;
  return `${open}${margin}${parts.join(`,${margin}`)}\n${"  ".repeat(level)}${close}`;
}

function entriesOf(object: JsonObject, options: WriteOptions): [string, JsonValue][] {
  const entries = [...object];
  return options.sortKeys ? entries.sort(([a], [b]) => compareCodePoints(a, b)) : entries;
}

/** JavaScript compares UTF-16 units, which differs from code points beyond the basic plane. */
function compareCodePoints(a: string, b: string): number {
  const [x, y] = [[...a], [...b]];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const difference = x[i]!.codePointAt(0)! - y[i]!.codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return x.length - y.length;
}

function quoted(text: string, ascii: boolean): string {
  // JSON.stringify escapes as Python does: quote, backslash and control characters, short forms
  // where there are any.
  const escaped = JSON.stringify(text);
  // deno-lint-ignore no-control-regex
  return ascii ? escaped.replace(/[^\x00-\x7e]/g, unicodeEscape) : escaped;
}

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/**
 * The value as plain JavaScript, for validation and for reading settings; big integers lose
 * precision here.
 */
export function toPlain(value: JsonValue): unknown {
  if (value instanceof JsonNumber) return value.value;
  if (Array.isArray(value)) return value.map(toPlain);
  if (value instanceof Map) {
    const object: Record<string, unknown> = {};
    for (const [key, item] of value) {
      // Assigning "__proto__" would set the prototype instead of a key.
      Object.defineProperty(object, key, {
        value: toPlain(item),
        enumerable: true,
        writable: true,
        configurable: true,
      });
    }
    return object;
  }
  return value;
}

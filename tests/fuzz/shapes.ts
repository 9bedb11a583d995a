/**
 * Texts of any length with one shape: what makes a reader slow or overflow at one length does so
 * more at a greater one.
 */

/** A seeded generator of whole numbers. */
export class Choices {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 to `n` - 1 (mulberry32). */
  below(n: number): number {
    let t = this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

export interface Shape {
  /** For the report of a failure. */
  name: string;
  /** A text of about `length` characters. */
  at: (length: number) => string;
}

/** Characters that formats give a meaning, and others. */
const COMMON = [
  ..."a0 \t\n\r\"'\\[]{}()|-=,:;./_*`~#<>@&%+!?$^",
  ...["\0", "\x1b", "\x1b[", "é", "\u0130", "\u2028", "😀", "\ud800", "\ufeff", "\ufffd"],
  ...[
    "1e",
    "-1",
    "0.",
    "NaN",
    "Infinity",
    "null",
    "true",
    "\\u",
    '"a":',
    "a=",
    "https://",
    "\r\n",
    "  \n",
    "%s",
  ],
];

const timesOf = (unit: string, length: number) =>
  unit.repeat(Math.max(1, Math.floor(length / unit.length)));

/** @param own tokens of the format, chosen as often as the common ones */
export function shapeOf(choices: Choices, own: readonly string[]): Shape {
  const token = () =>
    own.length > 0 && choices.below(2) === 0 ? choices.of(own) : choices.of(COMMON);
  const unit = () => Array.from({ length: 1 + choices.below(3) }, token).join("");
  const edge = () => choices.below(2) === 0 ? "" : unit();
  const [before, between, after] = [edge(), edge(), edge()];
  const [a, b, c] = [unit(), unit(), unit()];
  const shown = (...parts: string[]) => parts.map((part) => JSON.stringify(part)).join(" ");
  switch (choices.below(5)) {
    case 0:
      return { name: `many ${shown(before, a, after)}`, at: (n) => before + timesOf(a, n) + after };
    case 1:
      return {
        name: `two runs ${shown(before, a, between, b, after)}`,
        at: (n) => before + timesOf(a, n / 2) + between + timesOf(b, n / 2) + after,
      };
    case 2:
      return {
        name: `three runs ${shown(before, a, b, c, after)}`,
        at: (n) => before + timesOf(a, n / 3) + timesOf(b, n / 3) + timesOf(c, n / 3) + after,
      };
    case 3: {
      const [open, close] = choices.of([["[", "]"], ["{", "}"], ['{"a":', "}"], ["(", ")"], [
        "[[",
        "]]",
      ], [a, b]]);
      const levels = (n: number) => Math.floor(n / (open!.length + close!.length)) + 1;
      const closed = choices.below(3) > 0;
      return {
        name: `${closed ? "nested" : "opened"} ${shown(before, open!, c, close!, after)}`,
        at: (n) =>
          before + open!.repeat(levels(n)) + c + (closed ? close!.repeat(levels(n)) : "") + after,
      };
    }
    default: {
      // Each piece is longer than the one before it.
      const grown = (n: number) => {
        const parts: string[] = [];
        for (let length = 0, i = 1; length < n; length += i * a.length + b.length, i++) {
          parts.push(a.repeat(i) + b);
        }
        return parts.join("");
      };
      return {
        name: `growing ${shown(before, a, b, after)}`,
        at: (n) => before + grown(n) + after,
      };
    }
  }
}

/** A valid input with some of it changed: flipped bits, a cut, a part repeated, other bytes. */
export function changed(choices: Choices, whole: Uint8Array): Uint8Array {
  let bytes = whole.slice();
  for (let times = 1 + choices.below(4); times > 0 && bytes.length > 0; times--) {
    const at = choices.below(bytes.length);
    switch (choices.below(5)) {
      case 0:
        bytes[at]! ^= 1 << choices.below(8);
        break;
      case 1:
        bytes = bytes.slice(0, at);
        break;
      case 2:
        bytes = bytes.slice(at);
        break;
      case 3: {
        const part = bytes.subarray(at, at + 1 + choices.below(400));
        const again = Array.from({ length: 1 + choices.below(50) }, () => part);
        bytes = new Uint8Array([
          ...bytes.subarray(0, at),
          ...again.flatMap((one) => [...one]),
          ...bytes.subarray(at),
        ]);
        break;
      }
      default:
        for (let i = at; i < Math.min(bytes.length, at + 1 + choices.below(16)); i++) {
          bytes[i] = choices.below(256);
        }
    }
  }
  return bytes;
}

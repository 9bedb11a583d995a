/**
 * HPACK (RFC 7541), as much as one call takes: headers are written as they are, and read from an encoder that was told to
 * keep no table of its own.
 */
import { MosaicError } from "../base/errors.ts";

/** A value that nobody on the way is to remember, such as a token, is `secret`. */
export type Header = [name: string, value: string, secret?: "secret"];

/** @throws MosaicError `invalid_argument` for a value that no header may have. */
export function encodeHeaders(headers: readonly Header[]): Uint8Array {
  const bytes: number[] = [];
  for (const [name, value, secret] of headers) {
    if (!/^[\x20-\x7e]*$/.test(value)) {
      const shown = secret === undefined ? ` "${value}"` : "";
      throw new MosaicError("invalid_argument", `the header ${name}${shown} has characters that no header may have`);
    }
    bytes.push(secret === undefined ? 0x00 : 0x10);
    text(bytes, name);
    text(bytes, value);
  }
  return Uint8Array.from(bytes);
}

function text(bytes: number[], value: string): void {
  if (value.length < 0x7f) {
    bytes.push(value.length);
  } else {
    bytes.push(0x7f);
    let rest = value.length - 0x7f;
    for (; rest > 0x7f; rest >>>= 7) bytes.push(rest & 0x7f | 0x80);
    bytes.push(rest);
  }
  for (let i = 0; i < value.length; i++) bytes.push(value.charCodeAt(i));
}

/** Of the names that have a number: `:status` with its value; the others, of which none is asked for, are left out. */
const STATUS_NUMBERS: Readonly<Record<number, string>> = {
  8: "200",
  9: "204",
  10: "206",
  11: "304",
  12: "400",
  13: "404",
  14: "500",
};
const STATIC_NAMES = 61;

/** @throws MosaicError `internal` for what is no header block, or leans on a table that was not granted. */
export function decodeHeaders(block: Uint8Array): Map<string, string> {
  const headers = new Map<string, string>();
  const reader = new Reader(block);
  while (!reader.ended) {
    const first = reader.peek();
    if (first >= 0x80) {
      const number = reader.integer(7);
      if (number === 0 || number > STATIC_NAMES) throw broken(`there is no header number ${number}`);
      const status = STATUS_NUMBERS[number];
      if (status !== undefined) headers.set(":status", status);
    } else if (first >= 0x20 && first < 0x40) {
      const size = reader.integer(5);
      if (size !== 0) throw broken(`a table of ${size} bytes was not granted`);
    } else {
      const number = reader.integer(first >= 0x40 ? 6 : 4);
      if (number > STATIC_NAMES) throw broken(`there is no header number ${number}`);
      const name = number === 0 ? reader.text() : number in STATUS_NUMBERS ? ":status" : undefined;
      const value = reader.text();
      if (name !== undefined) headers.set(name, value);
    }
  }
  return headers;
}

class Reader {
  readonly #block: Uint8Array;
  #at = 0;

  constructor(block: Uint8Array) {
    this.#block = block;
  }

  get ended(): boolean {
    return this.#at >= this.#block.length;
  }

  peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw broken("it ends too early");
    return byte;
  }

  integer(prefixBits: number): number {
    const most = (1 << prefixBits) - 1;
    let value = this.#byte() & most;
    if (value < most) return value;
    for (let shift = 0;; shift += 7) {
      if (shift > 21) throw broken("a number is too large");
      const byte = this.#byte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  text(): string {
    const packed = this.peek() >= 0x80;
    const length = this.integer(7);
    const end = this.#at + length;
    if (end > this.#block.length) throw broken("it ends too early");
    const bytes = this.#block.subarray(this.#at, end);
    this.#at = end;
    return packed ? unpacked(bytes) : String.fromCharCode(...bytes);
  }

  #byte(): number {
    const byte = this.peek();
    this.#at++;
    return byte;
  }
}

function broken(what: string): MosaicError {
  return new MosaicError("internal", `the daemon's headers cannot be read: ${what}`);
}

/**
 * How many bits each character has in HPACK's Huffman code (RFC 7541, appendix B), from 0 to 255, and the end. The code is
 * canonical: the lengths say all of it.
 */
const BITS = `
  13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28
  6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10
  13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
  15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28
  20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24
  22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
  26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
  20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26
  30`.trim().split(/\s+/).map(Number);
const END = 256;
const LONGEST = 30;

/** Per number of bits the first code and the characters of the codes from there on. */
interface Codes {
  first: number;
  characters: number[];
}

let codes: Codes[] | undefined;

function codesByLength(): Codes[] {
  const table: Codes[] = [];
  let first = 0;
  for (let bits = 0; bits <= LONGEST; bits++) {
    const characters = BITS.flatMap((length, character) => length === bits ? [character] : []);
    table.push({ first, characters });
    first = (first + characters.length) * 2;
  }
  return table;
}

function unpacked(bytes: Uint8Array): string {
  codes ??= codesByLength();
  let text = "";
  let code = 0;
  let length = 0;
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    code = code * 2 + (bytes[bit >> 3]! >> (7 - (bit & 7)) & 1);
    length++;
    const { first, characters } = codes[length] ?? { first: 0, characters: [] };
    const character = characters[code - first];
    if (character === undefined) {
      if (length >= LONGEST) throw broken("a text has no meaning");
      continue;
    }
    if (character === END) throw broken("a text has an end in its middle");
    text += String.fromCharCode(character);
    code = length = 0;
  }
  // The last byte is filled with ones, which are the beginning of the end.
  if (length > 7 || code !== (1 << length) - 1) throw broken("a text ends in the middle of a character");
  return text;
}

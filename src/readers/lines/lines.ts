/** Whole lines of a worker's standard output, as bytes. */

import { DOT, MINUS, ZERO } from "./json_scan.ts";

/** Powers of ten by exponent: all of them exact. */
const POWERS = Array.from({ length: 16 }, (_, i) => 10 ** i);
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

export class Lines implements Iterable<string> {
  readonly bytes: Uint8Array;
  /** The same bytes, for reading several at a time. */
  readonly view: DataView;
  /** The end of each line: the position of its newline, or the end of the bytes. */
  readonly ends: readonly number[];
  /**
   * The whole as one string, if each byte is one character, so that positions are the same in both.
   */
  #text: string | undefined;
  /** Number of texts decoded from parts, until decoding the whole is worth it. */
  #parts = 0;

  /** @param bytes not copied: they must not change while this is in use. */
  constructor(bytes: Uint8Array, ends: readonly number[]) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.ends = ends;
  }

  /** From texts without newlines. */
  static of(...texts: string[]): Lines {
    const ends: number[] = [];
    const bytes = encoder.encode(texts.map((text) => text + "\n").join(""));
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, end + 1)) ends.push(end);
    return new Lines(bytes, ends);
  }

  get length(): number {
    return this.ends.length;
  }

  /** Where line `i` begins. */
  begin(i: number): number {
    return i === 0 ? 0 : this.ends[i - 1]! + 1;
  }

  line(i: number): string {
    return this.slice(this.begin(i), this.ends[i]!);
  }

  /** The text between two positions; invalid UTF-8 becomes U+FFFD. */
  slice(from: number, to: number): string {
    if (this.#parts < this.ends.length && this.#parts++ === this.ends.length >> 3) this.#decode();
    return this.#text === undefined
      ? decoder.decode(this.bytes.subarray(from, to))
      : this.#text.slice(from, to);
  }

  #decode(): void {
    // No character has more code units than bytes, so equal lengths mean one unit per byte.
    const text = decoder.decode(this.bytes);
    if (text.length === this.bytes.length) this.#text = text;
  }

  /**
   * The number between two positions. Up to 15 digits are exact as an integer; divided by an exact
   * power of ten, it is rounded once, and correctly.
   */
  number(from: number, to: number): number {
    const { bytes } = this;
    const digits = bytes[from] === MINUS ? from + 1 : from;
    if (to - digits > 16) return Number(this.slice(from, to));
    let whole = 0;
    let dot = -1;
    for (let i = digits; i < to; i++) {
      const c = bytes[i]!;
      if (c === DOT) dot = i;
      // An exponent, or a word.
      else if (c < ZERO || c > 57) return Number(this.slice(from, to));
      else whole = whole * 10 + (c - ZERO);
    }
    if (dot < 0 && to - digits > 15) return Number(this.slice(from, to));
    const number = dot < 0 ? whole : whole / POWERS[to - dot - 1]!;
    return digits === from ? number : -number;
  }

  *[Symbol.iterator](): Iterator<string> {
    for (let i = 0; i < this.length; i++) yield this.line(i);
  }
}

/**
 * The top-level fields of one line: the position, the value and the exact text of each. One pass
 * over the bytes checks that the line is JSON and finds its fields; only requested values are
 * parsed. Actions, observations and unknown fields are passed on as they were written. That is
 * exact (`1.0` stays `1.0`, integers of any size survive) and several times cheaper than parsing
 * the line and writing the values again.
 */
import {
  afterBlanks,
  afterString,
  afterValue,
  CLOSE_BRACE,
  COLON,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from "./json_scan.ts";
import { type KeyNode, KeyTree } from "./key_tree.ts";
import { Lines } from "./lines.ts";
import { slotOf, SLOTS } from "./slots.ts";
import { withNamedNonFinite, withoutNonFinite } from "../../base/text/json_text.ts";

const NONE = new Lines(new Uint8Array(0), []);
const LITTLE_N = 110;

/**
 * A field of a line: its slot (-1 for a name without a meaning), and the positions of its key's
 * quote and of its value.
 */
export interface Field {
  slot: number;
  key: number;
  value: number;
  valueEnd: number;
  taken: boolean;
}

/**
 * The fields of the line that was loaded last. One instance is reused, so that a line allocates
 * nothing here.
 */
export class Fields {
  #lines = NONE;
  #from = 0;
  #end = 0;
  #nonFinite = false;
  #count = 0;
  /** No key is repeated or contains escapes, so keys can be compared as bytes. */
  #plain = false;
  /**
   * Per field: begin and end of its key (without quotes) and of its value, its slot, and whether it
   * was used.
   */
  readonly #spans: number[] = [];
  readonly #slots: number[] = [];
  readonly #taken: boolean[] = [];
  #takenCount = 0;
  /** Per slot: the index of its field in the line; -1 if the line has none. */
  readonly #at = new Int32Array(SLOTS).fill(-1);
  readonly #keys = new KeyTree();

  /**
   * @param from position of the line's `{` @param end position of the line's end @returns false if
   * the line is not JSON;
   *   then no field can be read.
   */
  load(lines: Lines, from: number, end: number): boolean {
    if (this.#load(lines, from, end, false)) return true;
    // Python writes NaN and infinities as bare words. Other text that is not JSON fails again.
    return this.#load(lines, from, end, true);
  }

  #load(lines: Lines, from: number, end: number, nonFinite: boolean): boolean {
    this.#forget();
    this.#lines = lines;
    this.#from = from;
    this.#end = end;
    this.#nonFinite = nonFinite;
    const { bytes } = lines;
    let place: KeyNode | undefined = this.#keys.root;
    let i = afterBlanks(bytes, from + 1, end);
    if (i < end && bytes[i] === CLOSE_BRACE) return afterBlanks(bytes, i + 1, end) === end;
    for (;;) {
      if (i >= end || bytes[i] !== QUOTE) return false;
      const key = i + 1;
      let known: KeyNode | undefined = place?.find(bytes, key);
      i = known === undefined ? afterString(bytes, i, end) : key + known.bytes.length;
      if (i < 0) return false;
      const keyEnd = i - 1;
      if (known === undefined && place !== undefined) {
        known = this.#keys.learn(place, lines.slice(key, keyEnd), bytes.subarray(key, i));
      }
      place = known;
      i = afterBlanks(bytes, i, end);
      if (i >= end || bytes[i] !== COLON) return false;
      const value = afterBlanks(bytes, i + 1, end);
      i = afterValue(bytes, value, end, nonFinite);
      if (i < 0) return false;
      this.#add(key, keyEnd, value, i, known === undefined ? -1 : known.slot);
      i = afterBlanks(bytes, i, end);
      if (i >= end) return false;
      if (bytes[i] === CLOSE_BRACE) break;
      if (bytes[i] !== COMMA) return false;
      i = afterBlanks(bytes, i + 1, end);
    }
    this.#plain = place !== undefined;
    if (!this.#plain) this.#findByName();
    return afterBlanks(bytes, i + 1, end) === end;
  }

  #forget(): void {
    for (let i = 0; i < this.#count; i++) {
      const slot = this.#slots[i]!;
      if (slot >= 0) this.#at[slot] = -1;
    }
    this.#count = this.#takenCount = 0;
  }

  #add(key: number, keyEnd: number, value: number, valueEnd: number, slot: number): void {
    const i = this.#count++;
    this.#spans[i * 4] = key;
    this.#spans[i * 4 + 1] = keyEnd;
    this.#spans[i * 4 + 2] = value;
    this.#spans[i * 4 + 3] = valueEnd;
    this.#slots[i] = slot;
    this.#taken[i] = false;
    if (slot >= 0) this.#at[slot] = i;
  }

  /** For a line with a key that is not in the tree. */
  #findByName(): void {
    const seen = new Map<string, number>();
    for (let i = 0; i < this.#count; i++) {
      const key = this.#keyAt(i);
      const before = seen.get(key);
      // The last value of a repeated key counts, as in JSON.parse.
      if (before !== undefined) this.#takeAt(before);
      seen.set(key, i);
      const slot = this.#slots[i] = slotOf(key);
      if (slot >= 0) this.#at[slot] = i;
    }
  }

  #keyAt(i: number): string {
    return JSON.parse(
      this.#lines.slice(this.#spans[i * 4]! - 1, this.#spans[i * 4 + 1]! + 1),
    ) as string;
  }

  #takeAt(i: number): void {
    if (this.#taken[i]) return;
    this.#taken[i] = true;
    this.#takenCount++;
  }

  has(slot: number): boolean {
    return this.#at[slot] !== -1;
  }

  isNull(slot: number): boolean {
    return this.#first(slot) === LITTLE_N;
  }

  isText(slot: number): boolean {
    return this.#first(slot) === QUOTE;
  }

  /** An object or an array. */
  isCompound(slot: number): boolean {
    const first = this.#first(slot);
    return first === OPEN_BRACE || first === OPEN_BRACKET;
  }

  /** The first byte of a value shows its type. */
  #first(slot: number): number {
    const i = this.#at[slot]!;
    return i === -1 ? 0 : this.#lines.bytes[this.#spans[i * 4 + 2]!]!;
  }

  /** The parsed value; undefined if the line has no such field. */
  value(slot: number): unknown {
    const i = this.#at[slot]!;
    if (i === -1) return undefined;
    const from = this.#spans[i * 4 + 2]!;
    const to = this.#spans[i * 4 + 3]!;
    switch (this.#lines.bytes[from]) {
      case QUOTE: {
        const text = this.#lines.slice(from + 1, to - 1);
        return text.includes("\\") ? JSON.parse(this.#lines.slice(from, to)) : text;
      }
      case 116:
        return true;
      case 102:
        return false;
      case LITTLE_N:
        return null;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        return JSON.parse(this.#slice(from, to, withoutNonFinite));
    }
    return this.#lines.number(from, to);
  }

  /**
   * The value's text as written, except that bare non-finite words become null. The field must
   * exist.
   */
  text(slot: number): string {
    return this.#text(slot, withoutNonFinite);
  }

  /** The same, but bare non-finite words become texts: for fields that may contain metrics. */
  textOfMetrics(slot: number): string {
    return this.#text(slot, withNamedNonFinite);
  }

  #text(slot: number, repair: (text: string) => string): string {
    const i = this.#at[slot]!;
    return this.#slice(this.#spans[i * 4 + 2]!, this.#spans[i * 4 + 3]!, repair);
  }

  #slice(from: number, to: number, repair: (text: string) => string): string {
    const text = this.#lines.slice(from, to);
    return this.#nonFinite ? repair(text) : text;
  }

  /** Marks a field as used, so that it is not among the leftovers. */
  take(slot: number): void {
    const i = this.#at[slot]!;
    if (i !== -1) this.#takeAt(i);
  }

  /**
   * `"key":value` of every unused field, as written except that bare non-finite words become texts,
   * joined by commas; "" if all are used.
   */
  leftovers(without?: Record<string, unknown>): string {
    if (this.#takenCount === this.#count) return "";
    let text = "";
    for (let i = 0; i < this.#count; i++) {
      if (this.#taken[i]) continue;
      if (without !== undefined && Object.hasOwn(without, this.#keyAt(i))) continue;
      const field = this.#slice(
        this.#spans[i * 4]! - 1,
        this.#spans[i * 4 + 3]!,
        withNamedNonFinite,
      );
      text = text === "" ? field : `${text},${field}`;
    }
    return text;
  }

  /** The fields in the line's order; undefined if the line is not plain JSON with plain keys. */
  layout(): Field[] | undefined {
    if (this.#nonFinite || !this.#plain) return undefined;
    return Array.from({ length: this.#count }, (_, i) => ({
      slot: this.#slots[i]!,
      key: this.#spans[i * 4]! - 1,
      value: this.#spans[i * 4 + 2]!,
      valueEnd: this.#spans[i * 4 + 3]!,
      taken: this.#taken[i]!,
    }));
  }

  /** The whole record, parsed; non-finite values at its top level are numbers. */
  record(): Record<string, unknown> {
    const record = JSON.parse(this.#slice(this.#from, this.#end, withoutNonFinite)) as Record<
      string,
      unknown
    >;
    if (!this.#nonFinite) return record;
    const seen = new Set<string>();
    // Backwards, because the last value of a repeated key counts.
    for (let i = this.#count - 1; i >= 0; i--) {
      const text = this.#lines.slice(this.#spans[i * 4 + 2]!, this.#spans[i * 4 + 3]!);
      const key = this.#keyAt(i);
      if (!seen.has(key) && /^(?:NaN|-?Infinity)$/.test(text)) record[key] = Number(text);
      seen.add(key);
    }
    return record;
  }
}

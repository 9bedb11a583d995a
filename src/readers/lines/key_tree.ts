/**
 * The keys of earlier lines, in their order, as a tree. A worker's lines have a few shapes, so the
 * keys of nearly every line are found by comparing bytes, without decoding them or looking up
 * names.
 */
import { slotOf } from "./slots.ts";

/**
 * Number of learned keys after which all are forgotten, and number of keys that may follow one key:
 * bounds for lines with ever new shapes.
 */
const MAX_LEARNED = 1024;
const MAX_BRANCHES = 16;
/**
 * Bounds on the keys of a line and the bytes of a key, beyond which looking up names costs less.
 */
const MAX_DEPTH = 128;
const MAX_KEY_BYTES = 256;

export class KeyNode {
  /** Ends with the quote, so that no key is a prefix of another. */
  readonly bytes: Uint8Array;
  readonly slot: number;
  readonly next: KeyNode[] = [];
  /** Number of keys up to and including this one. */
  readonly depth: number;
  readonly #parent: KeyNode | undefined;
  /** undefined for the root. */
  readonly #name: string | undefined;

  constructor(name?: string, bytes = new Uint8Array(0), parent?: KeyNode) {
    this.#name = name;
    this.bytes = bytes;
    this.slot = name === undefined ? -1 : slotOf(name);
    this.#parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
  }

  /** The node of the key at a position of the line; undefined if no such key was seen there. */
  find(line: Uint8Array, at: number): KeyNode | undefined {
    const { next } = this;
    for (let n = 0; n < next.length; n++) {
      const node = next[n]!;
      const { bytes } = node;
      let i = 0;
      while (i < bytes.length && line[at + i] === bytes[i]) i++;
      if (i === bytes.length) return node;
    }
    return undefined;
  }

  /** Whether this is the key, or it comes earlier in the line. */
  has(name: string): boolean {
    return this.#name === name || (this.#parent !== undefined && this.#parent.has(name));
  }
}

export class KeyTree {
  root = new KeyNode();
  #learned = 0;

  /**
   * Adds a key; undefined if it cannot be added: it contains escapes, is repeated in its line, is
   * long, or has too many keys before it.
   * @param bytes of the key with its closing quote
   */
  learn(after: KeyNode, name: string, bytes: Uint8Array): KeyNode | undefined {
    if (after.depth === MAX_DEPTH || bytes.length > MAX_KEY_BYTES) return undefined;
    if (name.includes("\\") || after.has(name)) return undefined;
    if (after.next.length === MAX_BRANCHES) after.next.length = 0;
    if (this.#learned === MAX_LEARNED) {
      this.root = new KeyNode();
      this.#learned = 0;
    }
    const node = new KeyNode(name, bytes.slice(), after);
    after.next.push(node);
    this.#learned++;
    return node;
  }
}

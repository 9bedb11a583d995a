/**
 * The keys that lines were seen to have, in their order, as a tree. A worker's lines are of a few shapes, so the keys of
 * nearly every line are found by comparing bytes: no text is made of them and no name is looked up.
 */
import { slotOf } from "./slots.ts";

/** Keys learned before all are forgotten, and keys that may follow one another: bounds for lines of ever new shapes. */
const MAX_LEARNED = 1024;
const MAX_BRANCHES = 16;
/** Keys of a line, and bytes of a key, beyond which looking names up costs less. */
const MAX_DEPTH = 128;
const MAX_KEY_BYTES = 256;

export class KeyNode {
  /** With the quote at its end, so that no key is the beginning of another. */
  readonly bytes: Uint8Array;
  readonly slot: number;
  readonly next: KeyNode[] = [];
  /** Keys up to and with this one. */
  readonly depth: number;
  readonly #parent: KeyNode | undefined;
  /** undefined for the beginning of all lines. */
  readonly #name: string | undefined;

  constructor(name?: string, bytes = new Uint8Array(0), parent?: KeyNode) {
    this.#name = name;
    this.bytes = bytes;
    this.slot = name === undefined ? -1 : slotOf(name);
    this.#parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
  }

  /** The node of the key that stands at a position of the line; undefined when none was seen there yet. */
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

  /** Whether the key is this one or stands before it. */
  has(name: string): boolean {
    return this.#name === name || (this.#parent !== undefined && this.#parent.has(name));
  }
}

export class KeyTree {
  root = new KeyNode();
  #learned = 0;

  /** Adds a key; undefined for one that has no place here: it is written with escapes, comes twice in its line, is long,
   * or stands behind very many.
   * @param bytes of the key with its closing quote */
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

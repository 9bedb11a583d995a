/**
 * Recognizes returned rows when a program rewrites its table (a wider header, the same rows): a
 * count and a checksum of their non-empty cells, in any order of columns.
 */

/** Two 32-bit lanes: a single one would collide in one of 65 000 tables. */
type Lanes = [number, number];

function columnHash(column: string): Lanes {
  let a = 0x811c9dc5;
  let b = 0x1b873593;
  for (let i = 0; i < column.length; i++) {
    a = Math.imul(a ^ column.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ column.charCodeAt(i), 0x85ebca6b);
  }
  return [a ^ 0x9e37, b];
}

function cellHash([a, b]: Lanes, value: string): Lanes {
  for (let i = 0; i < value.length; i++) {
    a = Math.imul(a ^ value.charCodeAt(i), 0x01000193);
    b = Math.imul((b << 13) ^ (b >>> 19) ^ value.charCodeAt(i), 0xc2b2ae35);
  }
  return [a, b];
}

function text([a, b]: Lanes): string {
  return (a >>> 0).toString(16).padStart(8, "0") + (b >>> 0).toString(16).padStart(8, "0");
}

export interface RowsState {
  count: number;
  hash: Lanes;
  /** The checksum after row 1, 2, 4, 8 …, to detect other content early. */
  rungs: string[];
}

export class Rows {
  #count = 0;
  #hash: Lanes = [0, 0];
  #rungs: string[] = [];
  #columns: readonly string[] = [];
  #columnHashes: readonly Lanes[] = [];

  get count(): number {
    return this.#count;
  }

  /** The checksum of the rows so far. */
  get hash(): string {
    return text(this.#hash);
  }

  add(columns: readonly string[], cells: readonly string[]): void {
    // Once for a table: its header may be long, and its rows short.
    if (columns !== this.#columns) {
      [this.#columns, this.#columnHashes] = [columns, columns.map(columnHash)];
    }
    let a = 0;
    let b = 0;
    for (let i = 0; i < Math.min(columns.length, cells.length); i++) {
      const cell = cells[i]!;
      if (cell === "") continue;
      const hash = cellHash(this.#columnHashes[i]!, cell);
      a = (a + hash[0]) | 0;
      b = (b + hash[1]) | 0;
    }
    this.#hash = [
      Math.imul(this.#hash[0] ^ a, 0x01000193),
      Math.imul(this.#hash[1] ^ b, 0x85ebca6b) ^ a,
    ];
    this.#count++;
    if ((this.#count & (this.#count - 1)) === 0) this.#rungs.push(this.hash);
  }

  /** Whether these rows can be the first ones of `known`; certain if the count is equal. */
  isBeginningOf(known: Rows): boolean {
    if (this.#count === known.#count && this.hash !== known.hash) return false;
    return this.#rungs.every((rung, i) => rung === known.#rungs[i]);
  }

  state(): RowsState {
    return { count: this.#count, hash: [...this.#hash], rungs: [...this.#rungs] };
  }

  static of(state: RowsState): Rows {
    const rows = new Rows();
    rows.#count = state.count;
    rows.#hash = [...state.hash];
    rows.#rungs = [...state.rungs];
    return rows;
  }
}

/**
 * The newest rows of a run in memory, so that readers near the head do not read SQLite. A ring only
 * contains copies of committed rows: dropping it costs readers time, never data.
 */
import type { StoredStep } from "../../gen/records/record_types.ts";
import { type CleanSteps, stepAt, stepTextLength } from "../../records/storable_steps.ts";

/** Approximate memory of one row without its texts. */
const ROW_BYTES = 100;
const CHUNK_BYTES = 600;

interface Chunk {
  first: number;
  attempt: number;
  columns: CleanSteps;
  bytes: number;
}

/** Steps, stored as the columns in which they arrived. */
export class StepRing {
  #chunks: Chunk[] = [];
  #rows = 0;
  #bytes = 0;

  /**
   * @param maxRows about this many are kept @param maxBytes of memory, approximately; a larger
   * batch is not kept at all
   */
  constructor(private readonly maxRows: number, private readonly maxBytes: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  push(first: number, attempt: number, columns: CleanSteps): void {
    const bytes = CHUNK_BYTES + columns.n * ROW_BYTES + columns.textLength;
    this.#chunks.push({ first, attempt, columns, bytes });
    this.#rows += columns.n;
    this.#bytes += bytes;
    let drop = 0;
    while (drop < this.#chunks.length) {
      const oldest = this.#chunks[drop]!;
      if (this.#rows - oldest.columns.n < this.maxRows && this.#bytes <= this.maxBytes) break;
      this.#rows -= oldest.columns.n;
      this.#bytes -= oldest.bytes;
      drop++;
    }
    if (drop > 0) this.#chunks.splice(0, drop);
  }

  /** The next rows do not follow the present ones. */
  clear(): void {
    this.#chunks = [];
    this.#rows = this.#bytes = 0;
  }

  /** Rows after `since`; undefined if the ring does not reach back to it. */
  read(since: number, limit: number, maxLength: number): StoredStep[] | undefined {
    if (this.#chunks.length === 0 || this.#chunks[0]!.first > since + 1) return undefined;
    const rows: StoredStep[] = [];
    let length = 0;
    for (let c = this.#chunkOf(since + 1); c < this.#chunks.length; c++) {
      const { first, attempt, columns } = this.#chunks[c]!;
      for (let i = Math.max(0, since + 1 - first); i < columns.n; i++) {
        length += stepTextLength(columns, i);
        if (rows.length >= limit || (length > maxLength && rows.length > 0)) return rows;
        rows.push(stepAt(columns, i, first + i, attempt));
      }
    }
    return rows;
  }

  /** Index of the chunk that holds `seq`, by bisection. */
  #chunkOf(seq: number): number {
    let low = 0;
    let high = this.#chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#chunks[middle]!.first <= seq) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Rows of the other kinds, as objects. */
export class RowRing<T extends { seq: number }> {
  #rows: T[] = [];
  #bytes = 0;

  constructor(
    private readonly maxRows: number,
    private readonly maxBytes: number,
    private readonly lengthOf: (row: T) => number,
  ) {}

  get bytes(): number {
    return this.#bytes;
  }

  push(rows: readonly T[]): void {
    for (const row of rows) {
      this.#rows.push(row);
      this.#bytes += ROW_BYTES + this.lengthOf(row);
    }
    // Removed several rows at a time, so that a full ring does not move its array for each row.
    if (this.#rows.length <= this.maxRows + (this.maxRows >> 2) && this.#bytes <= this.maxBytes) {
      return;
    }
    let drop = Math.max(0, this.#rows.length - this.maxRows);
    for (let i = 0; i < this.#rows.length && (i < drop || this.#bytes > this.maxBytes); i++) {
      this.#bytes -= ROW_BYTES + this.lengthOf(this.#rows[i]!);
      drop = Math.max(drop, i + 1);
    }
    this.#rows.splice(0, drop);
  }

  read(since: number, limit: number, maxLength: number): T[] | undefined {
    const first = this.#rows[0]?.seq;
    if (first === undefined || first > since + 1) return undefined;
    const rows: T[] = [];
    let length = 0;
    for (let i = since + 1 - first; i < this.#rows.length && rows.length < limit; i++) {
      const row = this.#rows[i]!;
      length += this.lengthOf(row);
      if (length > maxLength && rows.length > 0) break;
      // A copy, because a reader may change its row.
      rows.push({ ...row });
    }
    return rows;
  }
}

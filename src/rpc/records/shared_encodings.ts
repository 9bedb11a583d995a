/**
 * Records encoded once for all subscribers of a run. Rows never change, so a chunk that begins
 * after a seq serves every reader at that position; readers at the head of a log wake together and
 * continue in step. Only the newest chunks that several readers may want are kept.
 */
import type { Core } from "../../dispatch/core/core.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { Form } from "./record_forms.ts";

/** Framed messages of the rows from `first` to `last`. */
export interface Chunk {
  framed: Uint8Array;
  first: number;
  last: number;
}

/** Rows read at one time; a row may be large, but the store also bounds the bytes. */
const ROWS_A_CHUNK = 512;
/** Bound on all kept chunks. */
const MAX_BYTES = 8 << 20;

export class SharedEncodings {
  readonly #core: Core;
  /** Oldest first. */
  readonly #chunks = new Map<string, Chunk>();
  readonly #readers = new Map<string, number>();
  #bytes = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Bytes of the kept chunks. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A reader of a run's records in one encoding. Close it when done. */
  open<K extends TelemetryKind>(form: Form<K>, runId: string): EncodedRecords {
    const opened = `${form.name} ${form.kind} ${runId}`;
    this.#readers.set(opened, (this.#readers.get(opened) ?? 0) + 1);
    return {
      read: (since, most) => {
        // An id may be reused after its run was deleted; the submission time then differs.
        const key = `${opened} ${this.#core.runs.get(runId)?.createdAt} ${since}`;
        // Ends where others' chunks end, so that readers at different positions can share again.
        const length = ROWS_A_CHUNK - since % ROWS_A_CHUNK;
        const whole = most >= length;
        const known = whole ? this.#chunks.get(key) : undefined;
        if (known !== undefined) return known;
        const rows = this.#core.records.read(runId, form.kind, since, Math.min(length, most));
        if (rows.length === 0) return undefined;
        // A chunk is contiguous: missing rows appear between two chunks.
        const gap = rows.findIndex(({ seq }, i) => seq !== rows[0]!.seq + i);
        if (gap > 0) rows.length = gap;
        const framed = form.encode(runId, rows);
        const chunk = { framed, first: rows[0]!.seq, last: rows[rows.length - 1]!.seq };
        if (whole && this.#readers.get(opened)! > 1) this.#keep(key, chunk);
        return chunk;
      },
      close: () => {
        const left = this.#readers.get(opened)! - 1;
        if (left === 0) this.#readers.delete(opened);
        else this.#readers.set(opened, left);
      },
    };
  }

  #keep(key: string, chunk: Chunk): void {
    if (chunk.framed.length > MAX_BYTES / 2) return;
    this.#chunks.set(key, chunk);
    this.#bytes += chunk.framed.length;
    for (const [oldest, { framed }] of this.#chunks) {
      if (this.#bytes <= MAX_BYTES) break;
      this.#chunks.delete(oldest);
      this.#bytes -= framed.length;
    }
  }
}

export interface EncodedRecords {
  /**
   * The next chunk after `since`, of at most this many rows; undefined at the head. @throws
   * `out_of_range` below retention.
   */
  read(since: number, most: number): Chunk | undefined;
  close(): void;
}

/**
 * The table of how far each observed file is stored. It is read in the transaction that stores a
 * batch.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import { checkedRow } from "../tables/row_checksums.ts";

export class SourceCursors {
  readonly #serial: StatementSync;
  readonly #put: StatementSync;
  readonly #row: ReturnType<typeof checkedRow>;
  readonly #all: StatementSync;

  constructor(db: DatabaseSync) {
    this.#serial = db.prepare(
      "SELECT serial FROM source_cursors WHERE run_key = ? AND attempt = ? AND source = ?",
    );
    this.#row = checkedRow(db, "source_cursors", [
      "run_key",
      "attempt",
      "source",
      "label",
      "serial",
      "state",
    ]);
    this.#put = db.prepare(`INSERT OR REPLACE ${this.#row.insert}`);
    this.#all = db.prepare(
      `SELECT attempt, source AS name, label, serial, state, crc FROM source_cursors
        WHERE run_key = ?1 AND attempt <= ?2 ORDER BY source, attempt`,
    );
  }

  /** Number of the source's stored batches. */
  serial(runKey: number, attempt: number, name: string): number {
    return (this.#serial.get(runKey, attempt, name)?.serial ?? 0) as number;
  }

  put(runKey: number, attempt: number, { name, label, serial, state }: SourceCursor): void {
    this.#put.run(...this.#row.values(runKey, attempt, name, label, serial, state));
  }

  /**
   * The attempt's cursors, and the last cursor of files that only earlier attempts have read;
   * undefined if one is damaged, because it may belong to any file.
   */
  of(runKey: number, attempt: number): SourceCursor[] | undefined {
    const cursors = new Map<string, SourceCursor>();
    for (const row of this.#all.all({ "1": runKey, "2": attempt })) {
      const { attempt: its, crc, ...cursor } = row as unknown as SourceCursor & {
        attempt: number;
        crc: number | null;
      };
      const { name, label, serial, state } = cursor;
      if (!this.#row.intact([runKey, its, name, label, serial, state], crc)) return undefined;
      cursors.set(cursor.name, its === attempt ? cursor : { ...cursor, serial: 0 });
    }
    return [...cursors.values()];
  }
}

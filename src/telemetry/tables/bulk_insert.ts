/**
 * Inserts rows of one table with their checksums, several per statement: a call costs as much as a
 * row. Parameters are anonymous, because the runtime looks numbered ones up by name, which is
 * quadratic.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { type ChecksumOf, CRC_COLUMN, rowChecksum } from "./row_checksums.ts";

/** Rows per call, largest first; the rest of a batch uses the smaller ones. */
const TIERS = [32, 4, 1] as const;

export class BulkInsert {
  readonly #db: DatabaseSync;
  readonly #sql: string;
  readonly #row: string;
  readonly #statements = new Map<number, StatementSync>();
  /** Including the checksum. */
  readonly #width: number;
  readonly #checksum: ChecksumOf;
  #values: SQLInputValue[] = [];

  constructor(db: DatabaseSync, table: string, columns: readonly string[]) {
    this.#db = db;
    // FAIL, because any failure rolls the whole transaction back: otherwise SQLite would copy the
    // pages that a statement changes, to be able to undo it.
    this.#sql = `INSERT OR FAIL INTO ${table} (${[...columns, CRC_COLUMN].join(",")}) VALUES `;
    this.#row = `(${columns.map(() => "?").join(",")},?)`;
    this.#width = columns.length + 1;
    this.#checksum = rowChecksum(db, table, columns);
  }

  /** Keeps a row until `flush`, or until there are enough for a call. */
  add(...values: SQLInputValue[]): void {
    this.#values.push(...values, this.#checksum(values, 0));
    if (this.#values.length < this.#width * TIERS[0]) return;
    const full = this.#values;
    this.#values = [];
    this.#statement(TIERS[0]).run(...full);
  }

  /** Inserts the remaining rows; call it before the commit. */
  flush(): void {
    if (this.#values.length === 0) return;
    const rest = this.#values;
    this.#values = [];
    let o = 0;
    this.#fill(rest.length / this.#width, (args, at) => {
      for (let c = 0; c < this.#width; c++) args[at++] = rest[o++]!;
      return at;
    });
  }

  /** Drops the remaining rows, after a failed transaction. */
  clear(): void {
    this.#values = [];
  }

  /**
   * Inserts `n` rows at once. @param bind writes row `i` into `args` at `at` and returns the
   * position for the next
   */
  fill(n: number, bind: (args: SQLInputValue[], at: number, i: number) => number): void {
    this.#fill(n, (args, at, i) => {
      const end = bind(args, at, i);
      args[end] = this.#checksum(args, at);
      return end + 1;
    });
  }

  #fill(n: number, bind: (args: SQLInputValue[], at: number, i: number) => number): void {
    let i = 0;
    for (const rows of TIERS) {
      if (n - i < rows) continue;
      const statement = this.#statement(rows);
      const args: SQLInputValue[] = new Array(rows * this.#width);
      for (; n - i >= rows; i += rows) {
        let at = 0;
        for (let j = i; j < i + rows; j++) at = bind(args, at, j);
        statement.run(...args);
      }
    }
  }

  #statement(rows: number): StatementSync {
    let statement = this.#statements.get(rows);
    if (statement === undefined) {
      statement = this.#db.prepare(this.#sql + new Array(rows).fill(this.#row).join(","));
      this.#statements.set(rows, statement);
    }
    return statement;
  }
}

/** Rows of one table collected and inserted several to a statement: a call costs as much as a row. */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";

const ROWS_PER_CALL = 16;

export class BulkInsert {
  readonly #width: number;
  readonly #many: StatementSync;
  readonly #one: StatementSync;
  #values: SQLInputValue[] = [];

  constructor(db: DatabaseSync, table: string, columns: readonly string[]) {
    this.#width = columns.length;
    const row = `(${columns.map(() => "?").join(",")})`;
    const prepare = (rows: number) =>
      db.prepare(`INSERT INTO ${table} (${columns.join(",")}) VALUES ${new Array(rows).fill(row).join(",")}`);
    this.#many = prepare(ROWS_PER_CALL);
    this.#one = prepare(1);
  }

  add(...values: SQLInputValue[]): void {
    this.#values.push(...values);
    if (this.#values.length < this.#width * ROWS_PER_CALL) return;
    const full = this.#values;
    this.#values = [];
    this.#many.run(...full);
  }

  /** Inserts what is left; to be called before the commit. */
  flush(): void {
    const rest = this.#values;
    this.#values = [];
    for (let o = 0; o < rest.length; o += this.#width) this.#one.run(...rest.slice(o, o + this.#width));
  }

  /** Forgets what is left, after a failed transaction. */
  clear(): void {
    this.#values = [];
  }
}

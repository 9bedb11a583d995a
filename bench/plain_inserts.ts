/** Steps as rows of one table, one insert each: SQLite's own cost, without anything else. */
import { DatabaseSync } from "node:sqlite";
import type { StepColumns } from "../src/gen/records/record_types.ts";

const ROWS_A_TRANSACTION = 1024;

export class PlainInserts implements Disposable {
  readonly #db: DatabaseSync;
  readonly #insert: ReturnType<DatabaseSync["prepare"]>;
  #rows = 0;

  /** @param path of a database that does not exist yet */
  constructor(path: string) {
    this.#db = new DatabaseSync(path);
    this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    this.#db.exec(
      `CREATE TABLE steps (run_key INTEGER, seq INTEGER, attempt INTEGER, episode INTEGER, step INTEGER, reward REAL,
        ts_ns INTEGER, agent TEXT, action TEXT, observation TEXT, PRIMARY KEY (run_key, seq)) WITHOUT ROWID`,
    );
    this.#insert = this.#db.prepare(
      "INSERT INTO steps VALUES (1, ?, 1, ?, ?, 1, 1700000000000, 'agent_1', ?, ?)",
    );
  }

  insert({ n, episode, step, actionJson, observationJson }: StepColumns): void {
    for (let i = 0; i < n; i++) {
      if (i % ROWS_A_TRANSACTION === 0) this.#db.exec(i === 0 ? "BEGIN" : "COMMIT; BEGIN");
      this.#insert.run(
        ++this.#rows,
        episode![i]!,
        step![i]!,
        actionJson![i]!,
        observationJson![i]!,
      );
    }
    this.#db.exec("COMMIT");
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

/**
 * Copies a whole SQLite database through an open connection, also one whose file has been removed.
 * `VACUUM INTO` cannot do it: it attaches the copy, and the runtime lets no process with a
 * permission set attach a database.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";

export interface CopyOptions {
  /** Copies the rows of a table that exists in both. */
  rows?: (source: DatabaseSync, target: DatabaseSync, table: string) => void;
  /** Called before the commit. */
  finish?: (target: DatabaseSync) => void;
}

/**
 * Makes the database `to`, for its owner only. @throws SQLite's error, and an error for a source
 * without tables
 */
export function copyDatabase(
  source: DatabaseSync,
  to: string,
  { rows = copyRows, finish = () => {} }: CopyOptions = {},
): void {
  const target = new DatabaseSync(to);
  try {
    Deno.chmodSync(to, 0o600);
    const schema = source.prepare("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
      .all();
    const sqlOf = (types: string[]) => schema.filter((row) => types.includes(String(row.type)));
    const tables = sqlOf(["table"]).filter((row) => !String(row.name).startsWith("sqlite_"));
    if (tables.length === 0) throw new Error("it has no tables");
    target.exec("PRAGMA foreign_keys = OFF; BEGIN");
    for (const table of tables) target.exec(String(table.sql));
    for (const { name } of tables) rows(source, target, String(name));
    // The sequence counters: seqs must not restart at 1.
    if (sqlOf(["table"]).some((row) => row.name === "sqlite_sequence")) {
      target.exec("DELETE FROM sqlite_sequence");
      rows(source, target, "sqlite_sequence");
    }
    for (const index of sqlOf(["index", "trigger", "view"])) target.exec(String(index.sql));
    finish(target);
    target.exec("COMMIT");
    target.exec(
      `PRAGMA user_version = ${source.prepare("PRAGMA user_version").get()!.user_version}`,
    );
    target.exec("PRAGMA journal_mode = WAL");
  } finally {
    target.close();
  }
}

/** A name as SQL. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function copyRows(source: DatabaseSync, target: DatabaseSync, name: string): void {
  const table = quote(name);
  const columns = source.prepare(`PRAGMA table_info(${table})`).all().map((row) =>
    quote(String(row.name))
  );
  const insert = target.prepare(
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
  );
  const statement = source.prepare(`SELECT ${columns.join(", ")} FROM ${table}`);
  // Nanosecond timestamps exceed a number's precision.
  statement.setReadBigInts(true);
  // Not `iterate`, which ends silently at an error.
  for (const row of statement.all()) {
    insert.run(...Object.values(row as Record<string, SQLInputValue>));
  }
}

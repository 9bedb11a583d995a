/** Checks the two databases (integrity, schema version) and recovers the readable rows of a damaged one. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { messageOf } from "../base/errors.ts";
import type { Repairable } from "./finding.ts";

/** Above this size, uses SQLite's quick check, which skips comparing indexes with tables (seconds instead of minutes). */
const FULL_CHECK_BYTES = 1024 * 1024 * 1024;
/** Maximum SQLite messages shown per database. */
const PROBLEMS_SHOWN = 3;
/** Rows read at a time during recovery. */
const PIECE_ROWS = 512;

function bytesOf(path: string): number | undefined {
  try {
    return Deno.lstatSync(path).size;
  } catch {
    return undefined;
  }
}

/** @param newest the newest known schema version */
export function examineDatabase(path: string, newest: number): Repairable[] {
  const bytes = bytesOf(path);
  // No daemon has used this state directory yet.
  if (bytes === undefined) return [];
  const damaged = (message: string): Repairable => ({
    check: "database",
    severity: "error",
    path,
    message,
    remedy: "copy all readable rows into a new database and keep the damaged one beside it",
    repair: () => salvage(path, new Date()),
  });
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { readOnly: true });
  } catch (error) {
    return [damaged(`cannot be opened: ${messageOf(error)}`)];
  }
  try {
    const check = bytes > FULL_CHECK_BYTES ? "quick_check" : "integrity_check";
    const problems = db.prepare(`PRAGMA ${check}(20)`).all().map((row) => String(Object.values(row)[0]));
    if (problems.length !== 1 || problems[0] !== "ok") {
      const more = problems.length > PROBLEMS_SHOWN ? " …" : "";
      return [damaged(`is damaged: ${problems.slice(0, PROBLEMS_SHOWN).join("; ")}${more}`)];
    }
    const version = Number(db.prepare("PRAGMA user_version").get()!.user_version);
    if (version > newest) {
      const message = `has schema version ${version}; this mosaic knows versions up to ${newest}: use the newer mosaic`;
      return [{ check: "schema", severity: "error", path, message, remedy: "" }];
    }
    if (version < newest) {
      const message = `has schema version ${version}; the next start of the daemon upgrades it to ${newest}`;
      return [{ check: "schema", severity: "note", path, message, remedy: "" }];
    }
    return [];
  } catch (error) {
    const message = messageOf(error);
    if (/locked/i.test(message)) {
      return [{
        check: "database",
        severity: "note",
        path,
        message: "is locked by another program",
        remedy: "",
      }];
    }
    return [damaged(`is damaged: ${message}`)];
  } finally {
    db.close();
  }
}

/**
 * Copies the readable rows into a new database and replaces the damaged one with it. If even the schema is lost, leaves
 * no database: the daemon creates a new one.
 */
export function salvage(path: string, now: Date): string {
  const damagedPath = `${path}.damaged-${now.toISOString().replace(/[:.]/g, "-")}`;
  const rescued = `${path}.rescued`;
  for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
  let outcome: string;
  try {
    outcome = copyRows(path, rescued);
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
    outcome = `no rows are readable (${messageOf(error)}); the daemon will create an empty database`;
  }
  for (const suffix of ["", "-wal", "-shm"]) {
    if (bytesOf(`${path}${suffix}`) !== undefined) Deno.renameSync(`${path}${suffix}`, `${damagedPath}${suffix}`);
  }
  if (bytesOf(rescued) !== undefined) Deno.renameSync(rescued, path);
  return `${outcome}; the damaged database is now ${damagedPath}`;
}

function removeQuietly(path: string): void {
  if (bytesOf(path) !== undefined) Deno.removeSync(path);
}

function copyRows(from: string, to: string): string {
  const source = new DatabaseSync(from, { readOnly: true });
  const target = new DatabaseSync(to);
  const counts: string[] = [];
  try {
    Deno.chmodSync(to, 0o600);
    const schema = source.prepare("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").all();
    const sqlOf = (types: string[]) => schema.filter((row) => types.includes(String(row.type)));
    const tables = sqlOf(["table"]).filter((row) => !String(row.name).startsWith("sqlite_"));
    if (tables.length === 0) throw new Error("it has no tables");
    target.exec("PRAGMA foreign_keys = OFF; BEGIN");
    for (const table of tables) target.exec(String(table.sql));
    const names = tables.map((row) => String(row.name));
    // The sequence counters: seqs must not restart at 1.
    if (sqlOf(["table"]).some((row) => row.name === "sqlite_sequence")) names.push("sqlite_sequence");
    for (const name of names) {
      const { rows, complete } = copyTable(source, target, name);
      if (name !== "sqlite_sequence") counts.push(`${name} ${rows}${complete ? "" : " (not all)"}`);
    }
    for (const index of sqlOf(["index", "trigger", "view"])) target.exec(String(index.sql));
    const dangling = dropDanglingRows(target);
    if (dangling > 0) counts.push(`${dangling} rows without a run omitted`);
    target.exec("COMMIT");
    target.exec(`PRAGMA user_version = ${source.prepare("PRAGMA user_version").get()!.user_version}`);
    target.exec("PRAGMA journal_mode = WAL");
  } finally {
    target.close();
    source.close();
  }
  return `rows recovered: ${counts.join(", ")}`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * Reads from both ends, so that a bad page loses only its own rows. Reads in chunks that shrink at the damage, because a
 * statement returns all its rows or none (and the runtime's row iterator ends silently at an error).
 */
function copyTable(source: DatabaseSync, target: DatabaseSync, name: string): { rows: number; complete: boolean } {
  if (name === "sqlite_sequence") target.exec("DELETE FROM sqlite_sequence");
  const table = quote(name);
  const info = source.prepare(`PRAGMA table_info(${table})`).all();
  const columns = info.map((row) => quote(String(row.name)));
  const insert = target.prepare(
    `INSERT OR IGNORE INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
  );
  // The primary key: rows are stored in this order.
  const key = hasRowid(source, name)
    ? ["rowid"]
    : info.filter((row) => Number(row.pk) > 0).sort((x, y) => Number(x.pk) - Number(y.pk)).map((row) =>
      quote(String(row.name))
    );
  let rows = 0;
  let complete = true;

  const copy = (direction: "ASC" | "DESC"): boolean => {
    const order = key.map((column) => `${column} ${direction}`).join(", ");
    const beyond = `(${key.join(", ")}) ${direction === "ASC" ? ">" : "<"} (${key.map(() => "?").join(", ")})`;
    const keys = key.map((column, i) => `${column} AS salvage_key_${i}`).join(", ");
    const select = `SELECT ${columns.join(", ")}, ${keys} FROM ${table}`;
    let last: SQLInputValue[] | undefined;
    for (let limit = PIECE_ROWS;;) {
      let piece: SQLInputValue[][];
      try {
        const statement = source.prepare(
          `${select} ${last === undefined ? "" : `WHERE ${beyond}`} ORDER BY ${order} LIMIT ${limit}`,
        );
        // Nanosecond timestamps exceed a number's precision.
        statement.setReadBigInts(true);
        piece = statement.all(...last ?? []).map((row) => Object.values(row as Record<string, SQLInputValue>));
      } catch {
        if (limit === 1) return false;
        limit = Math.max(1, Math.floor(limit / 8));
        continue;
      }
      for (const row of piece) {
        try {
          rows += Number(insert.run(...row.slice(0, columns.length)).changes);
        } catch {
          // The row violates its table's constraints: skip it.
          complete = false;
        }
      }
      if (piece.length < limit) return true;
      last = piece.at(-1)!.slice(columns.length);
    }
  };

  if (!copy("ASC")) {
    complete = false;
    copy("DESC");
  }
  return { rows, complete };
}

function hasRowid(db: DatabaseSync, name: string): boolean {
  const row = db.prepare("SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?").get(name);
  return Number(row?.wr ?? 0) === 0;
}

/** Deletes rows whose parent row is lost. */
function dropDanglingRows(db: DatabaseSync): number {
  let dropped = 0;
  for (const { table, rowid } of db.prepare("PRAGMA foreign_key_check").all()) {
    if (rowid === null) continue;
    dropped += Number(db.prepare(`DELETE FROM ${quote(String(table))} WHERE rowid = ?`).run(rowid as number).changes);
  }
  return dropped;
}

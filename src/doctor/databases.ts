/** The two databases: whole, of a version that this mosaic knows, and rescued row by row when they are not whole. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { messageOf } from "../base/errors.ts";
import type { Repairable } from "./finding.ts";

/** Above this size only the quick check is made, which does not compare indexes with tables (and takes seconds, not minutes). */
const FULL_CHECK_BYTES = 1024 * 1024 * 1024;
/** Messages of SQLite about one database that are shown. */
const PROBLEMS_SHOWN = 3;
/** Rows read at a time while rescuing. */
const PIECE_ROWS = 512;

function bytesOf(path: string): number | undefined {
  try {
    return Deno.lstatSync(path).size;
  } catch {
    return undefined;
  }
}

/** @param newest the newest schema version that this mosaic knows */
export function examineDatabase(path: string, newest: number): Repairable[] {
  const bytes = bytesOf(path);
  // A state directory that no daemon has used yet.
  if (bytes === undefined) return [];
  const damaged = (message: string): Repairable => ({
    check: "database",
    severity: "error",
    path,
    message,
    remedy: "copy every row that can still be read into a new database; the damaged one is kept beside it",
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
      const message = `has schema version ${version}; this mosaic knows versions up to ${newest}: run the newer one`;
      return [{ check: "schema", severity: "error", path, message, remedy: "" }];
    }
    if (version < newest) {
      const message = `has schema version ${version}; the next start of the daemon brings it to ${newest}`;
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
        message: "is locked by another program just now",
        remedy: "",
      }];
    }
    return [damaged(`is damaged: ${message}`)];
  } finally {
    db.close();
  }
}

/**
 * Copies what can be read into a new database and puts that in the damaged one's place. Where even the list of tables is
 * lost, the place is left empty: the daemon begins with a new database.
 */
export function salvage(path: string, now: Date): string {
  const aside = `${path}.damaged-${now.toISOString().replace(/[:.]/g, "-")}`;
  const rescued = `${path}.rescued`;
  for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
  let told: string;
  try {
    told = copyRows(path, rescued);
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
    told = `nothing could be read (${messageOf(error)}); the daemon will begin with an empty one`;
  }
  for (const suffix of ["", "-wal", "-shm"]) {
    if (bytesOf(`${path}${suffix}`) !== undefined) Deno.renameSync(`${path}${suffix}`, `${aside}${suffix}`);
  }
  if (bytesOf(rescued) !== undefined) Deno.renameSync(rescued, path);
  return `${told}; the damaged database is now ${aside}`;
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
    // The counters of sequence numbers: they must not start again at 1.
    if (sqlOf(["table"]).some((row) => row.name === "sqlite_sequence")) names.push("sqlite_sequence");
    for (const name of names) {
      const { rows, complete } = copyTable(source, target, name);
      if (name !== "sqlite_sequence") counts.push(`${name} ${rows}${complete ? "" : " (not all)"}`);
    }
    for (const index of sqlOf(["index", "trigger", "view"])) target.exec(String(index.sql));
    const dangling = dropDanglingRows(target);
    if (dangling > 0) counts.push(`${dangling} rows without their run left out`);
    target.exec("COMMIT");
    target.exec(`PRAGMA user_version = ${source.prepare("PRAGMA user_version").get()!.user_version}`);
    target.exec("PRAGMA journal_mode = WAL");
  } finally {
    target.close();
    source.close();
  }
  return `rows rescued: ${counts.join(", ")}`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * From both ends: a bad page in the middle costs what lies on it, not everything behind it. Rows are asked for in pieces
 * that shrink at the damage, because a statement gives all its rows or none (and the runtime's row iterator takes an
 * error for the end).
 */
function copyTable(source: DatabaseSync, target: DatabaseSync, name: string): { rows: number; complete: boolean } {
  if (name === "sqlite_sequence") target.exec("DELETE FROM sqlite_sequence");
  const table = quote(name);
  const info = source.prepare(`PRAGMA table_info(${table})`).all();
  const columns = info.map((row) => quote(String(row.name)));
  const insert = target.prepare(
    `INSERT OR IGNORE INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
  );
  // The order in which the rows lie.
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
        // Nanoseconds do not fit into a number.
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
          // A row that no longer fits its own table.
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

/** Rows whose parent was on a page that is lost. */
function dropDanglingRows(db: DatabaseSync): number {
  let dropped = 0;
  for (const { table, rowid } of db.prepare("PRAGMA foreign_key_check").all()) {
    if (rowid === null) continue;
    dropped += Number(db.prepare(`DELETE FROM ${quote(String(table))} WHERE rowid = ?`).run(rowid as number).changes);
  }
  return dropped;
}

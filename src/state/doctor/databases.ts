/**
 * Checks the two databases (integrity, schema version) and recovers the readable rows of a damaged
 * one.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { copyDatabase, quote } from "../../os/database/copied_database.ts";
import { readDatabase } from "../../os/database/read_database.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import { copyWithFirstPage } from "./first_page.ts";
import { freeListDamage } from "./free_list.ts";
import { dropUnknownRecords } from "../../telemetry/commit/completeness.ts";
import { isFull, refusesContent } from "../../telemetry/blocks/failures.ts";
import type { Repairable } from "./finding.ts";

/**
 * Above this size, uses SQLite's quick check, which skips comparing indexes with tables (seconds
 * instead of minutes).
 */
const FULL_CHECK_BYTES = 1024 * 1024 * 1024;
/** Maximum SQLite messages shown per database. */
const PROBLEMS_SHOWN = 3;
/** Rows read at a time during recovery. */
const CHUNK_ROWS = 512;

function bytesOf(path: string): number | undefined {
  try {
    return Deno.lstatSync(path).size;
  } catch {
    return undefined;
  }
}

/**
 * @param newest the newest known schema version
 * @param create makes that schema in an empty database
 */
export function examineDatabase(
  path: string,
  newest: number,
  create: (db: DatabaseSync) => void,
): Repairable[] {
  const bytes = bytesOf(path);
  // No daemon has used this state directory yet.
  if (bytes === undefined) return [];
  const damaged = (message: string): Repairable => ({
    check: "database",
    severity: "error",
    path,
    message,
    remedy: "copy all readable rows into a new database and keep the damaged one beside it",
    repair: () => salvage(path, new Date(), create),
  });
  let db: DatabaseSync;
  try {
    db = readDatabase(path);
  } catch (error) {
    return [damaged(`cannot be opened: ${messageOf(error)}`)];
  }
  try {
    const check = bytes > FULL_CHECK_BYTES ? "quick_check" : "integrity_check";
    const problems = db.prepare(`PRAGMA ${check}(20)`).all().map((row) =>
      String(Object.values(row)[0])
    )
      .filter((problem) => problem !== "ok");
    const freeList = freeListDamage(path, db, check === "integrity_check");
    if (freeList !== undefined) problems.push(freeList);
    if (problems.length > 0) {
      const more = problems.length > PROBLEMS_SHOWN ? " …" : "";
      return [damaged(`is damaged: ${problems.slice(0, PROBLEMS_SHOWN).join("; ")}${more}`)];
    }
    const version = Number(db.prepare("PRAGMA user_version").get()!.user_version);
    if (version > newest) {
      const message =
        `has schema version ${version}; this mosaic knows versions up to ${newest}: use the newer mosaic`;
      return [{ check: "schema", severity: "error", path, message, remedy: "" }];
    }
    // Content that was only in its log was lost with a power failure: it is empty, like a missing
    // one.
    if (version === 0 && db.prepare("SELECT 1 FROM sqlite_master").get() === undefined) return [];
    if (version < newest) {
      const message =
        `has schema version ${version}; the next start of the daemon upgrades it to ${newest}`;
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
 * Copies the readable rows into a new database and replaces the damaged one with it. If even the
 * schema is lost, leaves no database: the daemon creates a new one.
 *
 * @throws MosaicError `unavailable` when the disk is full: then nothing has changed
 */
function salvage(path: string, now: Date, create: (db: DatabaseSync) => void): string {
  const damagedPath = `${path}.damaged-${now.toISOString().replace(/[:.]/g, "-")}`;
  const rescued = `${path}.rescued`;
  for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
  let outcome: string;
  try {
    outcome = copyRows(path, rescued);
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${rescued}${suffix}`);
    refuseFullDisk(error, path);
    outcome = copyRowsWithoutFirstPage(path, rescued, create) ??
      `no rows are readable (${messageOf(error)}); the daemon will create an empty database`;
  }
  for (const suffix of ["", "-wal", "-shm"]) {
    if (bytesOf(`${path}${suffix}`) !== undefined) {
      Deno.renameSync(`${path}${suffix}`, `${damagedPath}${suffix}`);
    }
  }
  if (bytesOf(rescued) !== undefined) Deno.renameSync(rescued, path);
  return `${outcome}; the damaged database is now ${damagedPath}`;
}

/** @returns undefined if nothing can be read in this way either */
function copyRowsWithoutFirstPage(
  from: string,
  to: string,
  create: (db: DatabaseSync) => void,
): string | undefined {
  const copy = `${from}.first-page`;
  try {
    return copyWithFirstPage(from, copy, create)
      ? `${copyRows(copy, to)}; a new first page was written`
      : undefined;
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${to}${suffix}`);
    refuseFullDisk(error, from);
    return undefined;
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) removeQuietly(`${copy}${suffix}`);
  }
}

/** What can be read must not be taken for lost because it cannot be written. */
function refuseFullDisk(error: unknown, path: string): void {
  if (!isFull(error) && !isShortage(error)) return;
  throw new MosaicError(
    "unavailable",
    `no rows were copied, and nothing has changed (${
      messageOf(error)
    }): repair again with free space of twice the ` +
      `${bytesOf(path)} bytes that the database has`,
    { cause: error },
  );
}

function removeQuietly(path: string): void {
  if (bytesOf(path) !== undefined) Deno.removeSync(path);
}

function copyRows(from: string, to: string): string {
  const source = new DatabaseSync(from, { readOnly: true });
  const counts: string[] = [];
  try {
    copyDatabase(source, to, {
      rows: (source, target, name) => {
        const { rows, gaps } = copyTable(source, target, name);
        if (name !== "sqlite_sequence") {
          counts.push(`${name} ${rows}${gaps === 0 ? "" : " (not all)"}`);
        }
      },
      finish: (target) => {
        const dangling = dropDanglingRows(target);
        if (dangling > 0) {
          counts.push(`${dangling} rows omitted that belong to no run or to no record of it`);
        }
      },
    });
  } finally {
    source.close();
  }
  return `rows recovered: ${counts.join(", ")}`;
}

/** Keys farther than this from a bad page's first one count as lost. */
const FARTHEST = 1n << 53n;

/**
 * Reads in chunks that shrink at the damage, because a statement returns all its rows or none (and
 * the runtime's row iterator ends silently at an error). After a bad page it searches the next
 * readable key, and reads from there in both directions, so that a bad page loses only its own
 * rows.
 */
function copyTable(
  source: DatabaseSync,
  target: DatabaseSync,
  name: string,
): { rows: number; gaps: number } {
  const table = quote(name);
  const info = source.prepare(`PRAGMA table_info(${table})`).all();
  const columns = info.map((row) => quote(String(row.name)));
  const insert = target.prepare(
    `INSERT OR IGNORE INTO ${table} (${columns.join(", ")}) VALUES (${
      columns.map(() => "?").join(", ")
    })`,
  );
  // The primary key: rows are stored in this order.
  const key = hasRowid(source, name)
    ? ["rowid"]
    : info.filter((row) => Number(row.pk) > 0).sort((x, y) => Number(x.pk) - Number(y.pk)).map((
      row,
    ) => quote(String(row.name)));
  let rows = 0;
  let gaps = 0;

  /** A search for the next readable key executes the same few statements thousands of times. */
  const statements = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = source.prepare(sql);
      // Nanosecond timestamps exceed a number's precision.
      statement.setReadBigInts(true);
      statements.set(sql, statement);
    }
    return statement;
  };

  /** The first rows beyond a key; undefined if they cannot be read. */
  const chunk = (
    direction: "ASC" | "DESC",
    beyond: SQLInputValue[],
    limit: number,
  ): SQLInputValue[][] | undefined => {
    const order = key.map((column) => `${column} ${direction}`).join(", ");
    const begin = key.slice(0, beyond.length).join(", ");
    const where = `(${begin}) ${direction === "ASC" ? ">" : "<"} (${
      beyond.map(() => "?").join(", ")
    })`;
    const keys = key.map((column, i) => `${column} AS salvage_key_${i}`).join(", ");
    const sql = `SELECT ${columns.join(", ")}, ${keys} FROM ${table} ${
      beyond.length === 0 ? "" : `WHERE ${where}`
    }
      ORDER BY ${order} LIMIT ${limit}`;
    try {
      const statement = prepared(sql);
      return statement.all(...beyond).map((row) =>
        Object.values(row as Record<string, SQLInputValue>)
      );
    } catch {
      return undefined;
    }
  };
  const keyOf = (row: SQLInputValue[]) => row.slice(columns.length);

  /**
   * Copies until the end (undefined) or up to unreadable rows: then returns the last key before
   * them.
   */
  const copy = (direction: "ASC" | "DESC", from: SQLInputValue[]): SQLInputValue[] | undefined => {
    let last = from;
    for (let limit = CHUNK_ROWS;;) {
      const found = chunk(direction, last, limit);
      if (found === undefined) {
        if (limit === 1) return last;
        limit = Math.max(1, Math.floor(limit / 8));
        continue;
      }
      for (const row of found) {
        // Keys on a damaged page may be in any order; following them might never end.
        if (last.length > 0 && !isBeyond(direction, keyOf(row), last)) return last;
        last = keyOf(row);
        try {
          rows += Number(insert.run(...row.slice(0, columns.length)).changes);
        } catch (error) {
          if (!refusesContent(error)) throw error;
          // The row violates its table's constraints: skip it.
          gaps++;
        }
      }
      if (found.length < limit) return undefined;
    }
  };

  /** The first readable key after a bad page, to within a 64th of its distance. */
  const nextReadable = (last: SQLInputValue[]): SQLInputValue[] | undefined => {
    for (let column = last.length - 1; column >= 0; column--) {
      const value = last[column];
      if (typeof value !== "bigint") continue;
      for (let distance = 1n; distance < FARTHEST; distance += 1n + (distance >> 6n)) {
        const found = chunk("ASC", [...last.slice(0, column), value + distance], 1);
        if (found?.[0] !== undefined && isBeyond("ASC", keyOf(found[0]), last)) {
          return keyOf(found[0]);
        }
        // There are no more rows.
        if (found?.length === 0) return undefined;
      }
    }
    return undefined;
  };

  let last = copy("ASC", []);
  while (last !== undefined) {
    gaps++;
    // If not even the first row can be read, keys are searched from the smallest on.
    if (last.length === 0) last = firstKey(source, table, key);
    const next = last && nextReadable(last);
    if (next === undefined) {
      copy("DESC", []);
      break;
    }
    // The rows between the bad page and this row; the row itself comes with the later ones.
    copy("DESC", next);
    last = copy("ASC", [...next.slice(0, -1), (next.at(-1) as bigint) - 1n]);
  }
  return { rows, gaps };
}

/** A key below all others, if keys are numbers; others cannot be searched. */
function firstKey(db: DatabaseSync, table: string, key: string[]): SQLInputValue[] | undefined {
  if (key[0] === "rowid") return [0n];
  const types = new Map(
    db.prepare(`PRAGMA table_info(${table})`).all().map((
      row,
    ) => [quote(String(row.name)), String(row.type)]),
  );
  return key.every((column) => types.get(column) === "INTEGER") ? key.map(() => 0n) : undefined;
}

/** In the order of SQLite's keys: integers and texts, in UTF-8's order. */
function isBeyond(direction: "ASC" | "DESC", key: SQLInputValue[], last: SQLInputValue[]): boolean {
  for (const [i, value] of key.entries()) {
    const other = last[i];
    if (other === undefined || value === other) continue;
    // Values of other types are not compared: SQLite has ordered them.
    if (typeof value !== typeof other || value === null || other === null) return true;
    return direction === "ASC" ? value > other : value < other;
  }
  return false;
}

function hasRowid(db: DatabaseSync, name: string): boolean {
  const row = db.prepare("SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?").get(
    name,
  );
  return Number(row?.wr ?? 0) === 0;
}

/** Deletes rows whose parent row is lost, and invalid keys from a damaged page. */
function dropDanglingRows(db: DatabaseSync): number {
  let dropped = 0;
  for (const { table, rowid } of db.prepare("PRAGMA foreign_key_check").all()) {
    if (rowid === null) continue;
    dropped += Number(
      db.prepare(`DELETE FROM ${quote(String(table))} WHERE rowid = ?`).run(rowid as number)
        .changes,
    );
  }
  return dropped + dropUnknownRecords(db);
}

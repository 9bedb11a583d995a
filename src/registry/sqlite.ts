/**
 * The registry's access to SQLite: pragmas, prepared statements, transactions, and errors with a
 * hint for people.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { messageOf, MosaicError } from "../base/errors.ts";
import { copyDatabase } from "../os/database/copied_database.ts";
import { fileBytes, removeIfThere } from "../os/files/files.ts";
import { OpenedFile } from "../os/files/opened_file.ts";
import { type Reserve, WithReserve } from "../os/files/reserve.ts";
import { writeTrouble } from "../os/files/write_trouble.ts";
import { openWal } from "../os/database/wal.ts";

/** `normal` survives the crash of a process, `full` also a power failure. */
export type Durability = "normal" | "full";

/**
 * How long a statement waits for another process (a backup, `mosaic doctor`) before it fails, in
 * milliseconds.
 */
const BUSY_TIMEOUT_MS = 2000;
const PROBE_TIMEOUT_MS = 100;
/**
 * Beyond this size the write-ahead log is moved into the database, and the file truncated to it.
 */
const WAL_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Opens (or creates, for its owner only) a database in WAL mode. @throws MosaicError if it cannot
 * be opened or is no database.
 */
export function openDatabase(
  path: string,
  durability: Durability,
  reserve?: Reserve,
): DatabaseSync {
  try {
    if (path !== ":memory:") {
      // SQLite would create it with the umask's mode; the log and shared memory beside it take the
      // database's.
      Deno.openSync(path, { create: true, write: true, read: true, mode: 0o600 }).close();
    }
    const { db } = openWal(path, BUSY_TIMEOUT_MS, reserve);
    try {
      db.exec(`PRAGMA synchronous = ${durability === "full" ? "FULL" : "NORMAL"}`);
      db.exec("PRAGMA foreign_keys = ON");
      // The log has to fit into the reserve.
      const limit = Math.min(WAL_LIMIT_BYTES, reserve?.bytes ?? WAL_LIMIT_BYTES);
      const { page_size } = db.prepare("PRAGMA page_size").get() as { page_size: number };
      db.exec(
        `PRAGMA journal_size_limit = ${limit}; PRAGMA wal_autocheckpoint = ${
          Math.ceil(limit / 2 / page_size)
        }`,
      );
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  } catch (error) {
    throw explainSqlite(error, path);
  }
}

/**
 * Explains an error of SQLite (or of opening its file) to a person. Machine trouble is
 * `unavailable`: nothing was written, and the same call works once the trouble is over.
 */
export function explainSqlite(error: unknown, path: string): Error {
  if (error instanceof MosaicError) return error;
  const text = messageOf(error);
  const unavailable = (message: string, hint: string) =>
    new MosaicError("unavailable", message, { hint, cause: error });
  if (/disk is full|No space left|quota exceeded/i.test(text)) {
    return unavailable(
      `cannot write ${path}: the disk is full`,
      "Free space on its file system (mosaic prune removes ended runs); nothing has to be restarted.",
    );
  }
  if (/database (table )?is locked/i.test(text)) {
    return unavailable(
      `cannot write ${path}: another process holds it locked`,
      "End the program that has the database open (a backup, sqlite3, mosaic doctor) and try again.",
    );
  }
  if (
    /readonly database|Read-only file system|unable to open database file|I\/O error|input\/output error/i
      .test(text)
  ) {
    const trouble = writeTrouble(path);
    if (trouble !== undefined) {
      return unavailable(`cannot write ${path}: ${trouble[0]} (${text})`, trouble[1]);
    }
  }
  if (
    /readonly database|Read-only file system|Permission denied|unable to open database file/i.test(
      text,
    )
  ) {
    return unavailable(
      `cannot write ${path}: ${text}`,
      "The directory and the file must be writable for the user that runs the daemon.",
    );
  }
  if (/disk I\/O error|Input\/output error/i.test(text)) {
    return unavailable(
      `cannot use ${path}: ${text}`,
      "Read the kernel's log for errors of the disk.",
    );
  }
  if (/malformed|not a database/i.test(text)) {
    return new MosaicError("internal", `${path} is damaged: ${text}`, {
      hint: "Stop the daemon and run: mosaic doctor --repair",
      cause: error,
    });
  }
  return error instanceof Error ? error : new Error(text);
}

/** A row as SQLite gives it. */
export type SqlRow = Record<string, unknown>;

/** Statements are prepared once; every write happens inside `transaction`. */
export class Sql {
  readonly path: string;
  readonly #db: DatabaseSync;
  readonly #file: OpenedFile;
  /** Path of the copy that was saved when the registry's file was removed. */
  #saved: string | undefined;
  readonly #reserved: WithReserve;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync, path: string, reserve?: Reserve) {
    this.#db = db;
    this.path = path;
    this.#file = new OpenedFile(path);
    const full = new Error("database or disk is full");
    this.#reserved = new WithReserve(reserve, {
      isFull: (error) => /disk is full/i.test(messageOf(error)),
      full: () => explainSqlite(full, path),
      logBytes: () => fileBytes(`${path}-wal`),
      emptyLog: () => this.#emptyLog(),
    });
    this.#reserved.begin();
  }

  #emptyLog(): boolean {
    try {
      this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // For example a damaged file: the next write reports it.
    }
    return fileBytes(`${this.path}-wal`) === 0;
  }

  #prepared(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, statement = this.#db.prepare(sql));
    return statement;
  }

  get(sql: string, ...values: SQLInputValue[]): SqlRow | undefined {
    return this.#explained(() => this.#prepared(sql).get(...values) as SqlRow | undefined);
  }

  all(sql: string, ...values: SQLInputValue[]): SqlRow[] {
    return this.#explained(() => this.#prepared(sql).all(...values) as SqlRow[]);
  }

  run(sql: string, ...values: SQLInputValue[]): { changes: number; lastId: number } {
    const result = this.#explained(() => this.#prepared(sql).run(...values));
    return { changes: Number(result.changes), lastId: Number(result.lastInsertRowid) };
  }

  /**
   * Commits what `work` did, or leaves the database as it was and throws.
   * @param always on a full disk, the reserve is used for it
   */
  transaction<T>(work: () => T, always = false): T {
    const once = () => this.#once(work);
    return this.#explained(() =>
      always ? this.#reserved.writeAlways(once) : this.#reserved.write(once)
    );
  }

  /** Within a transaction: what `work` did stays in it, or is undone and this throws. */
  part<T>(work: () => T): T {
    this.run("SAVEPOINT part");
    try {
      const result = work();
      this.run("RELEASE part");
      return result;
    } catch (error) {
      // On a full disk SQLite has already rolled back.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK TO part; RELEASE part");
      throw error;
    }
  }

  #once<T>(work: () => T): T {
    this.#requireFile();
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#db.exec("COMMIT");
      return result;
    } catch (error) {
      // On a full disk SQLite has already rolled back.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  /**
   * Refuses writes to a database file that was removed or replaced: they would be lost. Its
   * content, still readable by the open descriptor, is copied once: to the old path if nothing is
   * there, so that the next start continues with it.
   *
   * @throws MosaicError `unavailable`
   */
  #requireFile(): void {
    const what = this.#saved === undefined ? this.#file.check() : "removed";
    if (what === "same") return;
    this.#saved ??= this.#save(what === "removed" ? this.path : `${this.path}.saved-${Date.now()}`);
    const restart = this.#saved === this.path
      ? "Restart the daemon: it continues with the copy, and runs continue."
      : `Stop the daemon, put the copy in the place of ${this.path}, and start it again; runs live on.`;
    throw new MosaicError(
      "unavailable",
      `${this.path} was removed or replaced while the daemon uses it; nothing is written any more. It is saved as ${this.#saved}`,
      { hint: restart },
    );
  }

  #save(to: string): string {
    const part = `${this.path}.part`;
    const removePart = () => [part, `${part}-journal`].forEach(removeIfThere);
    removePart();
    try {
      copyDatabase(this.#db, part);
    } catch (error) {
      removePart();
      throw error;
    }
    // SQLite would take the removed file's write-ahead log for the copy's.
    if (to === this.path) {
      for (const suffix of ["-wal", "-shm"]) {
        removeIfThere(`${to}${suffix}`);
      }
    }
    Deno.renameSync(part, to);
    return to;
  }

  /** Whether a commit succeeds now: it changes nothing, but is written to disk. */
  probe(): boolean {
    try {
      // The caller must not wait for another program's lock.
      this.#db.exec(`PRAGMA busy_timeout = ${PROBE_TIMEOUT_MS}`);
      this.transaction(() => {
        const { user_version } = this.#db.prepare("PRAGMA user_version").get() as {
          user_version: number;
        };
        this.#db.exec(`PRAGMA user_version = ${user_version}`);
      });
      return true;
    } catch {
      return false;
    } finally {
      this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }

  close(): void {
    this.#statements.clear();
    this.#db.close();
  }

  #explained<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explainSqlite(error, this.path);
    }
  }
}

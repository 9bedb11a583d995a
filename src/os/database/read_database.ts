/** Reads a database that a daemon may have open. */
import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../../base/errors.ts";
import { fileSystemOf } from "../host/file_system.ts";
import { parentOf, removeIfThere } from "../files/files.ts";

/** Copies that a writer has disturbed. */
const MOST_TRIES = 50;
const AGAIN_MS = 20;
/** The kernel's clock of files has steps of up to 10 ms: two changes within one have one time. */
const CLOCK_MS = 20;
const LOCKED_MS = 50;
const WAL_HEADER = 32;

/**
 * Opens it read-only. On a file system where the daemon keeps the log's index in its own memory
 * (wal.ts), nobody else can join: then a copy of the database and its log is opened, which is
 * removed when the connection is closed. (Such file systems copy by reference, so a copy costs
 * nothing, or they are not meant for large state directories.)
 */
export function readDatabase(path: string, timeout = 5000): DatabaseSync & Disposable {
  const { kind } = fileSystemOf(parentOf(path));
  try {
    // A daemon that holds it there does so until it ends; without a time, SQLite waits for five
    // seconds.
    const db = new DatabaseSync(path, {
      readOnly: true,
      timeout: kind === "local" ? timeout : LOCKED_MS,
    });
    try {
      db.prepare("SELECT count(*) FROM sqlite_master").get();
    } catch (error) {
      // A damaged file is the caller's to explain.
      if (!/locked/i.test(messageOf(error))) return db as DatabaseSync & Disposable;
      db.close();
      throw error;
    }
    return db as DatabaseSync & Disposable;
  } catch (error) {
    if (!/locked/i.test(messageOf(error)) || kind === "local") throw error;
    return copyOf(path);
  }
}

function copyOf(path: string): DatabaseSync & Disposable {
  const copy = `${path}.read-${Deno.pid}-${crypto.randomUUID().slice(0, 8)}`;
  const remove = () => ["", "-wal", "-shm"].forEach((suffix) => removeIfThere(`${copy}${suffix}`));
  try {
    for (let tries = 0;; tries++) {
      const before = stampOf(path);
      if (before !== undefined) {
        Deno.copyFileSync(path, copy);
        // Frames that are appended meanwhile are complete transactions, or ignored.
        copyIfThere(`${path}-wal`, `${copy}-wal`);
        if (stampOf(path) === before) break;
      }
      if (tries >= MOST_TRIES) {
        throw new Error(`${path} is being written all the time: database is locked`);
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS);
    }
    const db = new DatabaseSync(copy);
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON");
    const close = db.close.bind(db);
    const closeAndRemove = () => {
      if (db.isOpen) close();
      remove();
    };
    return Object.assign(db, { close: closeAndRemove, [Symbol.dispose]: closeAndRemove });
  } catch (error) {
    remove();
    throw error;
  }
}

/**
 * Changes whenever the log is moved into the database, or begun anew; undefined: it has changed
 * only just.
 */
function stampOf(path: string): string | undefined {
  const { mtime, size } = Deno.statSync(path);
  if (Date.now() - mtime!.getTime() < CLOCK_MS) return undefined;
  let header = "";
  try {
    using log = Deno.openSync(`${path}-wal`);
    const bytes = new Uint8Array(WAL_HEADER);
    header = log.readSync(bytes) === WAL_HEADER ? bytes.toHex() : "";
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return `${mtime!.getTime()} ${size} ${header}`;
}

function copyIfThere(from: string, to: string): void {
  try {
    Deno.copyFileSync(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    removeIfThere(to);
  }
}

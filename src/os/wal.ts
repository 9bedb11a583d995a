/** Opens an SQLite database in WAL mode, on a full disk too. */
import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../base/errors.ts";

export interface WalDatabase {
  db: DatabaseSync;
  /**
   * There was no room for the memory that connections share: this one has its own, and until it is closed no other
   * connection can use the database. It can be read at once, and written as soon as there is room.
   */
  alone: boolean;
}

/** @throws what SQLite throws */
export function openWal(path: string, busyTimeoutMs: number): WalDatabase {
  try {
    return { db: opened(path, busyTimeoutMs, "NORMAL"), alone: false };
  } catch (error) {
    if (!/disk is full|disk I\/O error/i.test(messageOf(error))) throw error;
    return { db: opened(path, busyTimeoutMs, "EXCLUSIVE"), alone: true };
  }
}

function opened(path: string, busyTimeoutMs: number, locking: "NORMAL" | "EXCLUSIVE"): DatabaseSync {
  const db = new DatabaseSync(path);
  try {
    db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}; PRAGMA locking_mode = ${locking}; PRAGMA journal_mode = WAL`);
    // The first read sets the shared memory up.
    db.prepare("PRAGMA user_version").get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

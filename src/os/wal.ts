/** Opens an SQLite database in WAL mode, even on a full disk. */
import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../base/errors.ts";
import { writableDatabase } from "./file_system.ts";
import type { Reserve } from "./reserve.ts";

export interface WalDatabase {
  db: DatabaseSync;
  /**
   * No free space for the shared-memory file: the connection uses private memory, and until it is closed no other
   * connection can use the database. It can be read at once, and written as soon as there is free space.
   */
  alone: boolean;
}

/** @param reserve released if the disk is too full to open the database @throws SQLite's error */
export function openWal(path: string, busyTimeoutMs: number, reserve?: Reserve): WalDatabase {
  const open = (locking: "NORMAL" | "EXCLUSIVE") => ({
    db: opened(path, busyTimeoutMs, locking),
    alone: locking === "EXCLUSIVE",
  });
  try {
    return open("NORMAL");
  } catch (error) {
    if (!isFull(error)) throw error;
    if (reserve !== undefined) {
      reserve.release();
      try {
        return open("NORMAL");
      } catch (again) {
        if (!isFull(again)) throw again;
      }
    }
    return open("EXCLUSIVE");
  }
}

function isFull(error: unknown): boolean {
  return /disk is full|disk I\/O error/i.test(messageOf(error));
}

function opened(path: string, busyTimeoutMs: number, locking: "NORMAL" | "EXCLUSIVE"): DatabaseSync {
  const db = new DatabaseSync(writableDatabase(path));
  try {
    db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}; PRAGMA locking_mode = ${locking}; PRAGMA journal_mode = WAL`);
    // The first read creates the shared memory.
    db.prepare("PRAGMA user_version").get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * Opens an SQLite database in WAL mode, even on a full disk. The index of the log is a mapped file,
 * by which several connections and processes share the database. A copy-on-write file system ends a
 * process by SIGBUS that writes to such a page when there is no space, and one of the network does
 * not always keep it coherent: there the index is in this connection's memory, and other processes
 * read by read_database.ts.
 */
import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../../base/errors.ts";
import { fileSystemOf } from "../host/file_system.ts";
import { parentOf } from "../files/files.ts";
import type { Reserve } from "../files/reserve.ts";

export interface WalDatabase {
  db: DatabaseSync;
  /**
   * No free space for the shared-memory file, or a file system where it must not be used: the
   * connection uses private memory, and until it is closed no other connection can use the
   * database. On a full disk it can be read at once, and written as soon as there is free space.
   */
  alone: boolean;
}

/** @param reserve released if the disk is too full to open the database @throws SQLite's error */
export function openWal(path: string, busyTimeoutMs: number, reserve?: Reserve): WalDatabase {
  const open = (locking: "NORMAL" | "EXCLUSIVE") => ({
    db: opened(path, busyTimeoutMs, locking),
    alone: locking === "EXCLUSIVE",
  });
  const { kind } = path.startsWith("/") ? fileSystemOf(parentOf(path)) : { kind: "local" };
  if (kind === "copy_on_write" || kind === "remote") return open("EXCLUSIVE");
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

function opened(
  path: string,
  busyTimeoutMs: number,
  locking: "NORMAL" | "EXCLUSIVE",
): DatabaseSync {
  const db = new DatabaseSync(path);
  try {
    db.exec(
      `PRAGMA busy_timeout = ${busyTimeoutMs}; PRAGMA locking_mode = ${locking}; PRAGMA journal_mode = WAL`,
    );
    // The first read creates the shared memory.
    db.prepare("PRAGMA user_version").get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

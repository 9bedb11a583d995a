/**
 * What SQLite calls "disk I/O error" is a read-only file system, one whose server is away, or a
 * quota: a write of one byte tells.
 */
import { isFailed, troubleOf } from "../processes/shortage.ts";
import { isAtPath } from "./files.ts";

/**
 * Why nothing can be written in the directory of one of the daemon's own files; undefined: a file
 * can be written there.
 */
export function writeTrouble(path: string): readonly [what: string, hint: string] | undefined {
  const probe = `${path}-probe-${crypto.randomUUID()}.tmp`;
  try {
    using file = Deno.openSync(probe, { write: true, createNew: true, mode: 0o600 });
    Deno.removeSync(probe);
    file.writeSync(new Uint8Array(1));
    file.syncSync();
    return undefined;
  } catch (error) {
    return troubleOf(error);
  }
}

/**
 * Whether a file that was opened for writing can be neither written nor found at its path: its file
 * system has failed, and somebody has unmounted it. It can be repaired and mounted again only when
 * no process has a file of it open any more.
 */
export function isUnmountedForGood(file: Deno.FsFile, path: string): boolean {
  try {
    if (isAtPath(file, path)) return false;
  } catch {
    // What is at the path does not answer now.
    return false;
  }
  try {
    file.seekSync(0, Deno.SeekMode.Start);
    file.writeSync(new TextEncoder().encode("\n"));
    return false;
  } catch (error) {
    // On a full disk a removed lock says nothing.
    return isFailed(error);
  }
}

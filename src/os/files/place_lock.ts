/** The lock of a directory of which one process at a time is the owner, and who that is. */
import { type ProcessRef, processRef } from "../processes/identity.ts";
import { isAtPath, parentOf, readTextIfThere, tryLock } from "./files.ts";

const INHERITED_MS = 2000;
const AGAIN_MS = 20;

/** A lock of a file and of its directory. */
export interface PlaceLock {
  readonly file: Deno.FsFile;
  /** Whether the locked directory is still the one at its path, and not removed or replaced. */
  isHere(): boolean;
  /**
   * Locks the file again if somebody has removed it: until then its lock protects nothing.
   * @returns false if another process has locked the file that is there now
   */
  renew(): boolean;
  close(): void;
}

/**
 * Takes both locks: the file's, for earlier versions, and its directory's, because after somebody
 * removes the file its lock protects nothing. Undefined if another process holds either.
 *
 * A process that a killed holder was just creating has its locks until it runs a program of its
 * own. So if the recorded holder is gone, this blocks the thread and tries again for two seconds.
 */
export function tryLockPlace(path: string): PlaceLock | undefined {
  const end = performance.now() + INHERITED_MS;
  for (;;) {
    const lock = lockNow(path);
    if (lock !== undefined || recordedHolder(path) !== "gone" || performance.now() > end) {
      return lock;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS);
  }
}

function lockNow(path: string): PlaceLock | undefined {
  let file = tryLock(path);
  if (file === undefined) return undefined;
  const directory = Deno.openSync(parentOf(path), { read: true });
  const lock: PlaceLock = {
    get file() {
      return file!;
    },
    isHere: () => isAtPath(directory, parentOf(path)),
    renew() {
      if (isAtPath(file!, path)) return true;
      const again = tryLock(path);
      if (again === undefined) return false;
      file!.close();
      file = again;
      return true;
    },
    close() {
      directory.close();
      file!.close();
    },
  };
  try {
    if (directory.tryLockSync(true)) return lock;
  } catch {
    // A file system that cannot lock directories (NFS): only the file's lock.
    return lock;
  }
  lock.close();
  return undefined;
}

/**
 * The lock's holder writes its pid and identity into the file; a pid alone may have been reused.
 */
export function recordHolder({ file }: PlaceLock): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(processRef(Deno.pid))}\n`);
  // Overwrite in place, which needs no free space.
  file.seekSync(0, Deno.SeekMode.Start);
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
  file.truncateSync(bytes.length);
}

/** @returns "gone": it has ended; undefined: the file names no process */
export function recordedHolder(path: string): ProcessRef | "gone" | undefined {
  let named: ProcessRef;
  try {
    named = JSON.parse(readTextIfThere(path) ?? "") as ProcessRef;
  } catch {
    return undefined;
  }
  if (typeof named?.pid !== "number" || typeof named.identity !== "string") return undefined;
  const found = processRef(named.pid);
  return found?.identity === named.identity ? found : "gone";
}

/** What there is at a path, atomic file writes, and exclusive file locks. */
import { isDisconnected } from "../processes/shortage.ts";

/** The directory of an absolute path. */
export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

/**
 * Writes a file atomically: readers see the old or the new content. @param durable also survives
 * power loss
 */
export function writeFileAtomic(
  path: string,
  content: string | Uint8Array,
  options: { mode?: number; durable?: boolean } = {},
): void {
  const temporary = `${path}.${Deno.pid}.${crypto.randomUUID().slice(0, 8)}.tmp`;
  try {
    const file = Deno.openSync(temporary, {
      write: true,
      createNew: true,
      mode: options.mode ?? 0o600,
    });
    try {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
      if (options.durable) file.syncSync();
    } finally {
      file.close();
    }
    Deno.renameSync(temporary, path);
    if (options.durable) syncDirectory(parentOf(path));
  } catch (error) {
    try {
      removeIfThere(temporary);
    } catch {
      // Keep the original error.
    }
    throw error;
  }
}

/** Makes creations and renames in a directory durable. */
export function syncDirectory(path: string): void {
  const directory = Deno.openSync(path, { read: true });
  try {
    directory.syncSync();
  } finally {
    directory.close();
  }
}

export function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * What is at the path, a link as itself; undefined if nothing is. @throws if that cannot be seen
 */
export function infoIfThere(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

/** Bytes of the file; 0 if there is none, or it cannot be seen. */
export function fileBytes(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0;
  }
}

/** The file's text; undefined when there is no such file. */
export function readTextIfThere(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Takes the file's lock (flock); undefined if another process holds it. Released at the latest when
 * the process ends.
 */
export function tryLock(path: string): Deno.FsFile | undefined {
  const file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  if (file.tryLockSync(true)) return file;
  file.close();
  return undefined;
}

/** @throws while the file system at the path is away */
export function isAtPath(opened: Deno.FsFile, path: string): boolean {
  const there = infoIfThere(path);
  try {
    const { dev, ino } = opened.statSync();
    return there?.dev === dev && there.ino === ino;
  } catch (error) {
    // The file system of the open file is gone for good; another one is mounted at the path.
    if (isDisconnected(error)) return false;
    throw error;
  }
}

/**
 * Whether another process has the lock of the file or of its directory; takes shared locks for a
 * moment.
 */
export function isPlaceLocked(path: string): boolean {
  return isLocked(path) || isLocked(parentOf(path));
}

/**
 * Whether another process holds the exclusive lock of a file or directory; takes a shared lock for
 * a moment.
 */
export function isLocked(path: string): boolean {
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true });
  } catch {
    return false;
  }
  try {
    return !file.tryLockSync(false);
  } catch {
    return false;
  } finally {
    file.close();
  }
}

/**
 * Files that a worker can change. Below its run's directory a worker can replace any file by a
 * FIFO, a directory or a link. All such paths are opened and listed here, and changed in
 * untrusted_changes.ts: without waiting for FIFOs, without following links in any component, and
 * only if the opened file is the regular file that was found there (untrusted_way.ts).
 * `tests/architecture/untrusted_paths_test.ts` forbids other ways.
 *
 * `below` is the directory in which a worker may change everything, usually its run's. Without it a
 * path is one of mosaic's own files: in the run's directory or in one of OWN_DIRECTORIES.
 *
 * Open flags are not enough: under a permission set Deno resolves links before the kernel sees
 * O_NOFOLLOW.
 */
import { MosaicError } from "../../base/errors.ts";
import {
  type Identity,
  isInPlace,
  notRegular,
  type Place,
  placeOf,
  type Start,
  startOf,
} from "./untrusted_way.ts";

type NodeFs = typeof import("node:fs");
/** The directory in which a worker may change everything; undefined for a file of mosaic's own. */
export type Below = string | Start | undefined;

/**
 * Maximum size of a control file. Most have some hundred bytes; a start file contains an
 * environment.
 */
const MAX_RECORD_BYTES = 16 << 20;
const CHUNK_BYTES = 64 << 10;

export function nodeFs(): NodeFs {
  return process.getBuiltinModule("node:fs");
}

export function begin(path: string, below: Below): Start {
  return typeof below === "object" ? below : startOf(path, below);
}

/** Files of mosaic's own that are deeper in one of OWN_DIRECTORIES. */
export function ownIn(runDirectory: string): Start {
  return { below: runDirectory, own: true };
}

/** @throws `permission_denied` for anything but a regular file, and for a path through a link */
function lookUp(path: string, start: Start): Place | undefined {
  const place = placeOf(path, start);
  if (place?.info.isFile === false) throw notRegular(path);
  return place;
}

/** An error of node:fs in Deno's form, so that isShortage() recognises it. */
function denoError(error: unknown): unknown {
  const { errno, code, message } = error as { errno?: number; code?: string; message: string };
  if (errno === undefined) return error;
  const Kind = code === "EACCES" ? Deno.errors.PermissionDenied : Error;
  return new Kind(`${message} (os error ${Math.abs(errno)})`, { cause: error });
}

/** The result of a function of node:fs. @throws errors in Deno's form */
export function withDenoErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw denoError(error);
  }
}

/** The same of one that calls back. */
export function callbackResult<T = void>(
  call: (done: (error: Error | null, result: T) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) =>
    call((error, result) => error ? reject(denoError(error)) : resolve(result))
  );
}

/** A file that node:fs has opened. */
export abstract class OpenFile implements Disposable {
  /** In this process. */
  readonly descriptor: number;
  #closed = false;

  constructor(descriptor: number) {
    this.descriptor = descriptor;
  }

  stat(): {
    dev: number;
    ino: number;
    mode: number;
    uid: number;
    gid: number;
    size: number;
    blocks: number;
    mtimeMs: number;
    birthtimeMs: number;
    isFile: boolean;
  } {
    const info = nodeFs().fstatSync(this.descriptor);
    const { dev, ino, mode, uid, gid, size, blocks, mtimeMs, birthtimeMs } = info;
    return { dev, ino, mode, uid, gid, size, blocks, mtimeMs, birthtimeMs, isFile: info.isFile() };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    nodeFs().closeSync(this.descriptor);
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Open for reading. */
export class RegularFile extends OpenFile {
  /** Reads from `position` until `into` is full or the file ends. @returns bytes read */
  readSync(position: number, into: Uint8Array): number {
    let filled = 0;
    while (filled < into.length) {
      const read = nodeFs().readSync(
        this.descriptor,
        into,
        filled,
        into.length - filled,
        position + filled,
      );
      if (read === 0) break;
      filled += read;
    }
    return filled;
  }

  /** Asynchronous `readSync`. */
  async read(position: number, into: Uint8Array): Promise<number> {
    let filled = 0;
    while (filled < into.length) {
      const at = filled;
      const read = await callbackResult<number>((done) =>
        nodeFs().read(this.descriptor, into, at, into.length - at, position + at, done)
      );
      if (read === 0) break;
      filled += read;
    }
    return filled;
  }

  /** The bytes from `begin` up to `end`; the file is closed when they are read. */
  readable(begin: number, end: number): ReadableStream<Uint8Array<ArrayBuffer>> {
    let position = begin;
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const bytes = new Uint8Array(Math.min(CHUNK_BYTES, end - position));
          const read = await this.read(position, bytes);
          position += read;
          if (read > 0) controller.enqueue(bytes.subarray(0, read));
          if (read > 0 && position < end) return;
          this.close();
          controller.close();
        } catch (error) {
          this.close();
          throw error;
        }
      },
      cancel: () => this.close(),
    }, { highWaterMark: 0 });
  }
}

/**
 * The opened file, if it is the regular file that is at `path`; otherwise it is closed.
 *
 * @param before what was there before the open, if something must have been
 * @throws MosaicError `permission_denied` when it is another file
 */
export function checked<F extends { close(): void }>(
  file: F,
  stat: () => Identity & { isFile: boolean },
  path: string,
  start: Start,
  before?: Place,
): F {
  try {
    const opened = stat();
    if (!opened.isFile || !isInPlace(path, start, before, opened)) throw notRegular(path);
    return file;
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * @throws errors in Deno's form, so that isShortage() recognises them; `permission_denied` for a
 * link
 */
export function openFd(path: string, flags: number, mode?: number): number | undefined {
  try {
    return nodeFs().openSync(path, flags, mode);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    if (code === "ELOOP" || code === "ENXIO") throw notRegular(path);
    throw denoError(error);
  }
}

/**
 * Opens the regular file at `path` for reading; undefined if there is none.
 *
 * @throws MosaicError `permission_denied` when something else is there, or there is a link on the
 * way
 */
export function openRegular(path: string, below: string | Start): RegularFile | undefined {
  const start = begin(path, below);
  const before = lookUp(path, start);
  if (before === undefined) return undefined;
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = nodeFs().constants;
  const fd = openFd(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (fd === undefined) return undefined;
  const file = new RegularFile(fd);
  return checked(file, () => file.stat(), path, start, before);
}

/** Opens a log of a run. @throws as `openRegular` */
export function openRegularLog(path: string): RegularFile | undefined {
  return openRegular(path, startOf(path, undefined));
}

/**
 * `openRegular` without node:fs, which would double the start-up time of a proxy. If a FIFO
 * replaces the file between look-up and open, the open blocks: the proxy hangs, and the daemon
 * replaces it.
 */
export function openRegularInProxy(path: string, below: string | Start): Deno.FsFile | undefined {
  const start = begin(path, below);
  const before = lookUp(path, start);
  if (before === undefined) return undefined;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  return checked(file, () => file.statSync(), path, start, before);
}

/** `openRegularLog` for a proxy (`openRegularInProxy`). */
export function openLogInProxy(path: string): Deno.FsFile | undefined {
  return openRegularInProxy(path, startOf(path, undefined));
}

/** Undefined if it is not a regular file. */
function ifRegular<T>(open: () => T | undefined): T | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof MosaicError && error.code === "permission_denied") return undefined;
    throw error;
  }
}

/**
 * The text of a control file; undefined if there is none, or not a regular file, or it is too
 * large.
 */
export function readRecord(path: string, below?: string): string | undefined {
  using file = ifRegular(() => openRegular(path, begin(path, below)));
  if (file === undefined) return undefined;
  const { size } = file.stat();
  if (size > MAX_RECORD_BYTES) return undefined;
  const bytes = new Uint8Array(size);
  return new TextDecoder().decode(bytes.subarray(0, file.readSync(0, bytes)));
}

/** The same for a proxy (`openRegularInProxy`). */
export function readRecordInProxy(path: string, below?: string): string | undefined {
  using file = ifRegular(() => openRegularInProxy(path, begin(path, below)));
  if (file === undefined) return undefined;
  const { size } = file.statSync();
  if (size > MAX_RECORD_BYTES) return undefined;
  const bytes = new Uint8Array(size);
  let filled = 0;
  for (
    let read: number | null;
    filled < size && (read = file.readSync(bytes.subarray(filled))) !== null;
  ) {
    filled += read;
  }
  return new TextDecoder().decode(bytes.subarray(0, filled));
}

/**
 * What is at a path, a link as itself; undefined if nothing is. @throws `permission_denied` for a
 * way through a link
 */
export function infoOf(path: string, below?: string | Start): Deno.FileInfo | undefined {
  return placeOf(path, begin(path, below))?.info;
}

/**
 * Whether another process holds the lock of one of mosaic's own files; takes a shared lock for a
 * moment.
 */
export function isFileLocked(path: string): boolean {
  using file = ifRegular(() => openLogInProxy(path));
  return file !== undefined && !file.tryLockSync(false);
}

/** Watches one of the run's OWN_DIRECTORIES. @throws `permission_denied` for a link in its place */
export function watchDirectory(path: string): Deno.FsWatcher {
  if (infoOf(path)?.isDirectory !== true) throw notRegular(path);
  return Deno.watchFs(path, { recursive: false });
}

/**
 * Entries of a directory. @throws `permission_denied` for a way through a link, errors of reading
 * it
 */
export function entriesOf(directory: string, below: string | Start): Deno.DirEntry[] {
  const isReal = () => void placeOf(`${directory}/.`, begin(directory, below));
  isReal();
  const entries = [...Deno.readDirSync(directory)];
  isReal();
  return entries;
}

/** The same without blocking the thread. */
export async function entriesLater(
  directory: string,
  below: string | Start,
): Promise<Deno.DirEntry[]> {
  const isReal = () => void placeOf(`${directory}/.`, begin(directory, below));
  isReal();
  const entries: Deno.DirEntry[] = [];
  for await (const entry of Deno.readDir(directory)) entries.push(entry);
  isReal();
  return entries;
}

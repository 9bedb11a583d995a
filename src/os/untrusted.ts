/**
 * Files that a worker can change. Below its run's directory a worker can replace any file by a FIFO, a directory or a link.
 * All such paths are opened here: without waiting for FIFOs, without following links, and only if the opened file is the
 * regular file that was found there.
 *
 * Open flags are not enough: under a permission set Deno resolves links before the kernel sees O_NOFOLLOW.
 */
import { MosaicError } from "../base/errors.ts";
import { parentOf, writeFileAtomic } from "./files.ts";
import { shellOutput } from "./shell.ts";

type NodeFs = typeof import("node:fs");

/** Maximum size of a control file. Most have some hundred bytes; a start file contains an environment. */
const MAX_RECORD_BYTES = 16 << 20;
const CHUNK_BYTES = 64 << 10;

function nodeFs(): NodeFs {
  return process.getBuiltinModule("node:fs");
}

function notRegular(path: string): MosaicError {
  return new MosaicError("permission_denied", `${path} is not a regular file in its run's directory`, {
    hint: "The run's worker has replaced it (by a link, a FIFO, a directory); mosaic does not open it.",
  });
}

/** @throws `permission_denied` for anything but a regular file, and for a path through a link */
function lookUp(path: string, below: string): Deno.FileInfo | undefined {
  try {
    for (let at = parentOf(path); at.length > below.length; at = parentOf(at)) {
      if (!Deno.lstatSync(at).isDirectory) throw notRegular(path);
    }
    const info = Deno.lstatSync(path);
    if (!info.isFile) throw notRegular(path);
    return info;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** An error of node:fs in Deno's form, so that isShortage() recognises it. */
function denoError(error: unknown): unknown {
  const { errno, code, message } = error as { errno?: number; code?: string; message: string };
  if (errno === undefined) return error;
  const Kind = code === "EACCES" ? Deno.errors.PermissionDenied : Error;
  return new Kind(`${message} (os error ${Math.abs(errno)})`, { cause: error });
}

/** The result of a function of node:fs. @throws errors in Deno's form */
function withDenoErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw denoError(error);
  }
}

/** The same of one that calls back. */
function callbackResult<T = void>(call: (done: (error: Error | null, result: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => call((error, result) => error ? reject(denoError(error)) : resolve(result)));
}

interface Identity {
  dev: number;
  ino: number | null;
}

function isSame(a: Identity | undefined, b: Identity): boolean {
  return a !== undefined && a.dev === b.dev && a.ino === b.ino;
}

/** A file that node:fs has opened. */
abstract class OpenFile implements Disposable {
  /** In this process. */
  readonly descriptor: number;
  #closed = false;

  constructor(descriptor: number) {
    this.descriptor = descriptor;
  }

  stat(): {
    dev: number;
    ino: number;
    gid: number;
    size: number;
    blocks: number;
    mtimeMs: number;
    birthtimeMs: number;
    isFile: boolean;
  } {
    const info = nodeFs().fstatSync(this.descriptor);
    const { dev, ino, gid, size, blocks, mtimeMs, birthtimeMs } = info;
    return { dev, ino, gid, size, blocks, mtimeMs, birthtimeMs, isFile: info.isFile() };
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
  readonly #path: string;

  constructor(descriptor: number, path: string) {
    super(descriptor);
    this.#path = path;
  }

  /** Reads from `position` until `into` is full or the file ends. @returns bytes read */
  readSync(position: number, into: Uint8Array): number {
    let filled = 0;
    while (filled < into.length) {
      const read = nodeFs().readSync(this.descriptor, into, filled, into.length - filled, position + filled);
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

  /**
   * Checks the opened file's real path, as the kernel knows it, which a worker cannot change after the open.
   * @throws `permission_denied` when it is not below `directory`, or the file was removed
   */
  requireBelow(directory: string): void {
    const real = this.#place();
    if (real === undefined || real.endsWith(" (deleted)") || !real.startsWith(`${Deno.realPathSync(directory)}/`)) {
      throw notRegular(this.#path);
    }
  }

  #place(): string | undefined {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${this.descriptor}`);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
      // Under a permission set only a shell can read /proc.
      return shellOutput('readlink "/proc/$0/fd/$1"', String(Deno.pid), String(this.descriptor))?.replace(/\n$/, "");
    }
  }
}

/**
 * The opened file, if it is the regular file that is at `path` now; otherwise it is closed.
 *
 * @param before what was there before the open, if something must have been
 * @throws MosaicError `permission_denied` when it is another file
 */
function checked<F extends { close(): void }>(
  file: F,
  stat: () => Identity & { isFile: boolean },
  path: string,
  below: string,
  before?: Identity,
): F {
  try {
    const opened = stat();
    const isUnchanged = before === undefined || isSame(before, opened);
    if (!opened.isFile || !isUnchanged || !isSame(lookUp(path, below), opened)) throw notRegular(path);
    return file;
  } catch (error) {
    file.close();
    throw error;
  }
}

/** @throws errors in Deno's form, so that isShortage() recognises them; `permission_denied` for a link */
function openFd(path: string, flags: number, mode?: number): number | undefined {
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
 * Opens the regular file at `path` for reading; undefined if there is none. No directory between `below` and it may be a
 * link.
 *
 * @throws MosaicError `permission_denied` when something else is there
 */
export function openRegular(path: string, below = parentOf(path)): RegularFile | undefined {
  const before = lookUp(path, below);
  if (before === undefined) return undefined;
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = nodeFs().constants;
  const fd = openFd(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (fd === undefined) return undefined;
  const file = new RegularFile(fd, path);
  return checked(file, () => file.stat(), path, below, before);
}

/** Open for writing. */
export class WritableFile extends OpenFile {
  async truncate(bytes: number): Promise<void> {
    await callbackResult((done) => nodeFs().ftruncate(this.descriptor, bytes, done));
  }
  truncateSync(bytes: number): void {
    withDenoErrors(() => nodeFs().ftruncateSync(this.descriptor, bytes));
  }

  /** Writes all of it at `position`. */
  async write(position: number, bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const at = done;
      done += await callbackResult<number>((written) =>
        nodeFs().write(this.descriptor, bytes, at, bytes.length - at, position + at, written)
      );
    }
  }
  writeSync(position: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length;) {
      const at = done;
      done += withDenoErrors(() => nodeFs().writeSync(this.descriptor, bytes, at, bytes.length - at, position + at));
    }
  }

  async syncData(): Promise<void> {
    await callbackResult((done) => nodeFs().fdatasync(this.descriptor, done));
  }
}

/**
 * Opens the packed part of a log for writing, and creates it if there is none; renames anything else at `path`. Its
 * directory may be no link.
 *
 * @throws MosaicError `permission_denied` when something else has been put there meanwhile
 */
export function openLogForWriting(path: string): WritableFile {
  const { O_WRONLY, O_CREAT, O_NONBLOCK, O_NOFOLLOW } = nodeFs().constants;
  quarantineFile(path);
  const fd = openFd(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0o600);
  if (fd === undefined) throw new Deno.errors.NotFound(`${path} cannot be created: its directory is not there`);
  const file = new WritableFile(fd);
  return checked(file, () => file.stat(), path, parentOf(parentOf(path)));
}

/** Opens a log of a run; neither the file nor its directory may be a link. @throws as `openRegular` */
export function openRegularLog(path: string): RegularFile | undefined {
  return openRegular(path, parentOf(parentOf(path)));
}

/**
 * `openRegular` without node:fs, which would double the start-up time of a proxy. If a FIFO replaces the file between
 * look-up and open, the open blocks: the proxy hangs, and the daemon replaces it.
 */
export function openRegularInProxy(path: string, below = parentOf(path)): Deno.FsFile | undefined {
  const before = lookUp(path, below);
  if (before === undefined) return undefined;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  return checked(file, () => file.statSync(), path, below, before);
}

/** `openRegularLog` for a proxy (`openRegularInProxy`). */
export function openLogInProxy(path: string): Deno.FsFile | undefined {
  return openRegularInProxy(path, parentOf(parentOf(path)));
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

/** The text of a control file; undefined if there is none, or not a regular file, or it is too large. */
export function readRecord(path: string, below?: string): string | undefined {
  using file = ifRegular(() => openRegular(path, below));
  if (file === undefined) return undefined;
  const { size } = file.stat();
  if (size > MAX_RECORD_BYTES) return undefined;
  const bytes = new Uint8Array(size);
  return new TextDecoder().decode(bytes.subarray(0, file.readSync(0, bytes)));
}

/** The same for a proxy (`openRegularInProxy`). */
export function readRecordInProxy(path: string, below?: string): string | undefined {
  using file = ifRegular(() => openRegularInProxy(path, below));
  if (file === undefined) return undefined;
  const { size } = file.statSync();
  if (size > MAX_RECORD_BYTES) return undefined;
  const bytes = new Uint8Array(size);
  let filled = 0;
  for (let read: number | null; filled < size && (read = file.readSync(bytes.subarray(filled))) !== null;) {
    filled += read;
  }
  return new TextDecoder().decode(bytes.subarray(0, filled));
}

/** Renames anything at `path` that is not of the wanted kind. Atomic, whatever its size. */
export function quarantineFile(path: string, wanted: "file" | "directory" | "nothing" = "file"): void {
  try {
    const info = Deno.lstatSync(path);
    if (wanted === "file" ? info.isFile : wanted === "directory" && info.isDirectory) return;
    Deno.renameSync(path, `${path}.${crypto.randomUUID().slice(0, 8)}.aside`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Removes the regular file at `path`, if there is one; no directory between `below` and it may be a link. */
export function removeRegular(path: string, below: string): void {
  if (lookUp(path, below) !== undefined) Deno.removeSync(path);
}

/** Creates a directory of a run; renames anything else in its place. */
export function makeDirectory(path: string): void {
  quarantineFile(path, "directory");
  Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
}

/** Creates a directory that belongs to the worker, unless something is there: a worker may have put a link in its place. */
export function offerDirectory(path: string): void {
  try {
    Deno.mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

/** Writes a control file atomically, through an unpredictable temporary name; replaces whatever is at `path`. */
export function writeRecord(
  path: string,
  content: string | Uint8Array,
  options: { durable?: boolean } = {},
): void {
  quarantineFile(path);
  writeFileAtomic(path, content, { mode: 0o600, ...options });
}

/** Opens a file of a run for appending; renames anything at `path` that is not a regular file. */
export function openForAppending(path: string): Deno.FsFile {
  quarantineFile(path);
  // An interrupted wrapper may have made it read-only.
  if (lookUp(path, parentOf(path)) !== undefined) Deno.chmodSync(path, 0o600);
  return Deno.openSync(path, { append: true, create: true, mode: 0o600 });
}

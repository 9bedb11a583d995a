/**
 * Changes of files that a worker can change. mosaic writes into the run's directory itself and into
 * its own directories there (OWN_DIRECTORIES), which a worker with fewer rights cannot replace.
 * Anywhere deeper a worker may exchange a directory for a link between a look and a change, and a
 * look afterwards comes too late: there a shell enters the directory, asks the kernel where it is,
 * and makes the change by the file's name alone (untrusted_way.ts).
 */
import { infoIfThere, parentOf, tryLock, writeFileAtomic } from "./files.ts";
import { shellOutput } from "../processes/shell.ts";
import {
  begin,
  type Below,
  callbackResult,
  checked,
  infoOf,
  nodeFs,
  openFd,
  OpenFile,
  withDenoErrors,
} from "./untrusted.ts";
import { inPlace, isExchangeable, notRegular, placeOf, startOf } from "./untrusted_way.ts";

/**
 * Makes a change by its path, if no worker can change the way to it; else by a shell in its
 * directory (`inPlace`).
 * @throws MosaicError `permission_denied` for a way through a link
 */
function change(
  path: string,
  below: Below,
  direct: () => void,
  script: string,
  ...words: string[]
): void {
  const start = begin(path, below);
  placeOf(path, start);
  if (!isExchangeable(path, start)) return direct();
  if (inPlace(path, start.below, script, ...words) === undefined) throw notRegular(path);
}

/** @throws Error for a path that only a shell may change: a defect of the caller */
function requireDirect(path: string, below: Below): void {
  const start = begin(path, below);
  placeOf(path, start);
  if (isExchangeable(path, start)) {
    throw new Error(`defect: a worker can change the way to ${path}`);
  }
}

/** Renames anything at `path` that is not of the wanted kind. Atomic, whatever its size. */
export function quarantineFile(
  path: string,
  wanted: "file" | "directory" | "nothing" = "file",
  below?: Below,
): void {
  const info = infoOf(path, begin(path, below));
  if (
    info === undefined ||
    (wanted === "file" ? info.isFile : wanted === "directory" && isOurDirectory(path, info))
  ) {
    return;
  }
  try {
    const aside = `${path}.${crypto.randomUUID().slice(0, 8)}.aside`;
    const name = aside.slice(parentOf(aside).length + 1);
    change(path, below, () => Deno.renameSync(path, aside), 'mv -f -- "./$2" "./$3"', name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Where the worker has a user of its own (the run's directory is sticky), a directory of that user
 * is not mosaic's.
 */
function isOurDirectory(path: string, info: Deno.FileInfo): boolean {
  if (!info.isDirectory) return false;
  const parent = infoIfThere(parentOf(path));
  return ((parent?.mode ?? 0) & 0o1000) === 0 || parent?.uid === info.uid;
}

/**
 * Removes the file at `path`, if there is one. @throws `permission_denied` for a way through a link
 */
export function removeFile(path: string, below?: Below): void {
  const info = infoOf(path, begin(path, below));
  if (info === undefined) return;
  try {
    change(path, below, () => Deno.removeSync(path), 'rm -f -- "./$2"');
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** The same for a regular file only. @throws `permission_denied` for anything else */
export function removeRegular(path: string, below?: Below): void {
  const info = infoOf(path, begin(path, below));
  if (info === undefined) return;
  if (!info.isFile) throw notRegular(path);
  removeFile(path, below);
}

/**
 * Removes a directory of a run, or the run's, with everything below it. The runtime removes what is
 * below by descriptors, without following links. @throws NotFound
 */
export async function removeTree(path: string, below?: Below): Promise<void> {
  requireDirect(path, below);
  await Deno.remove(path, { recursive: true });
}

/** The same without yielding. */
export function removeTreeNow(path: string, below?: Below): void {
  requireDirect(path, below);
  Deno.removeSync(path, { recursive: true });
}

/**
 * Lets its owner remove a directory: a worker may have removed the write permission of its own. For
 * root this is not needed, and with other users' workers it would be dangerous, because a mode is
 * changed by a path: root does not call this.
 */
export async function makeRemovable(path: string, below: string): Promise<void> {
  if (infoOf(path, below)?.isDirectory !== true) return;
  await Deno.chmod(path, 0o700);
  for await (const entry of Deno.readDir(path)) {
    if (entry.isDirectory) await makeRemovable(`${path}/${entry.name}`, below);
  }
}

/** Renames a file or directory of a run within it; replaces a file. @throws NotFound */
export function renameFile(
  from: string,
  to: string,
  below: { from?: Below; to?: Below } = {},
): void {
  requireDirect(from, below.from);
  change(to, below.to, () => Deno.renameSync(from, to), 'mv -f -T -- "$3" "./$2"', from);
}

/** Creates a directory of a run, with those above it; renames anything else in its place. */
export function makeDirectory(path: string, below?: Below): void {
  quarantineFile(path, "directory", below);
  if (infoOf(path, begin(path, below)) !== undefined) return;
  change(
    path,
    below,
    () => Deno.mkdirSync(path, { recursive: true, mode: 0o700 }),
    '[ -d "./$2" ] || mkdir -m 700 -- "./$2"',
  );
}

/** Creates the directories between `directory` and the file. */
export function makeDirectoriesTo(file: string, directory: string, below: Below): void {
  let at = directory;
  for (const part of parentOf(file).slice(directory.length + 1).split("/")) {
    if (part !== "") makeDirectory(at += `/${part}`, below);
  }
}

/**
 * Creates a directory that belongs to the worker, unless something is there: a worker may have put
 * a link in its place, or in the place of the directory above it.
 */
export function offerDirectory(path: string, below?: Below): void {
  const start = begin(path, below);
  if (!isExchangeable(path, start)) {
    try {
      Deno.mkdirSync(path, { mode: 0o700 });
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
    return;
  }
  // If the directory above is a link, the worker creates its own directory there.
  inPlace(path, start.below, '[ -e "./$2" ] || mkdir -m 700 -- "./$2"');
}

/**
 * Writes a control file atomically, through an unpredictable temporary name; replaces whatever is
 * at `path`.
 */
export function writeRecord(
  path: string,
  content: string | Uint8Array,
  options: { durable?: boolean } = {},
): void {
  requireDirect(path, undefined);
  quarantineFile(path);
  writeFileAtomic(path, content, { mode: 0o600, ...options });
}

/** Creates an empty file. @throws AlreadyExists */
export function createFile(path: string, mode = 0o600): Deno.FsFile {
  requireDirect(path, undefined);
  return Deno.openSync(path, { write: true, createNew: true, mode });
}

/**
 * Opens a file for reading and writing, and creates it; renames anything at `path` that is not a
 * regular file.
 */
export function openFile(path: string, below?: Below): Deno.FsFile {
  return opened(path, { read: true, write: true, create: true, mode: 0o600 }, below);
}

/** Opens a file of a run for appending; renames anything at `path` that is not a regular file. */
export function openForAppending(path: string): Deno.FsFile {
  // An interrupted wrapper may have made it read-only.
  quarantineFile(path);
  if (infoOf(path) !== undefined) setMode(path, 0o600);
  return opened(path, { append: true, create: true, mode: 0o600 });
}

function opened(path: string, options: Deno.OpenOptions, below?: Below): Deno.FsFile {
  requireDirect(path, below);
  quarantineFile(path, "file", below);
  const file = Deno.openSync(path, options);
  return checked(file, () => file.statSync(), path, begin(path, below));
}

/** Takes the lock of a file (flock); undefined if another process holds it. */
export function lockFile(path: string): Deno.FsFile | undefined {
  requireDirect(path, undefined);
  quarantineFile(path);
  return tryLock(path);
}

/**
 * Changes the mode of one of mosaic's own files. @throws `permission_denied` for anything but a
 * regular file
 */
export function setMode(path: string, mode: number): void {
  requireDirect(path, undefined);
  if (infoOf(path)?.isFile === false) throw notRegular(path);
  Deno.chmodSync(path, mode);
}

/** Whether this user may open one of mosaic's own files for writing, by its mode. */
export function opensForWriting(path: string): boolean {
  requireDirect(path, undefined);
  try {
    Deno.openSync(path, { write: true }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

/** Lets the group of a worker with its own user read one of mosaic's own files. */
export function shareWithGroup(path: string, group: number): void {
  setMode(path, 0o640);
  Deno.chownSync(path, null, group);
}

/** A FIFO for the worker's standard input. */
export function makeFifo(path: string): void {
  requireDirect(path, undefined);
  quarantineFile(path, "nothing");
  if (shellOutput('mkfifo -m 600 "$0"', path) === undefined) {
    throw new Error(`the FIFO ${path} cannot be made`);
  }
}

/**
 * Opened for reading and writing, it neither blocks nor ends. @throws if the worker has put
 * something else in its place
 */
export async function openFifo(path: string): Promise<Deno.FsFile> {
  if (infoOf(path)?.isFifo === true) {
    const file = await Deno.open(path, { read: true, write: true });
    if ((await file.stat()).isFifo) return file;
    file.close();
  }
  throw new Error(`${path} is no FIFO any more`);
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
      done += withDenoErrors(() =>
        nodeFs().writeSync(this.descriptor, bytes, at, bytes.length - at, position + at)
      );
    }
  }

  async syncData(): Promise<void> {
    await callbackResult((done) => nodeFs().fdatasync(this.descriptor, done));
  }
}

/**
 * Opens the packed part of a log for writing, and creates it if there is none; renames anything
 * else at `path`.
 *
 * @throws MosaicError `permission_denied` when something else has been put there meanwhile
 */
export function openLogForWriting(path: string): WritableFile {
  const { O_WRONLY, O_CREAT, O_NONBLOCK, O_NOFOLLOW } = nodeFs().constants;
  quarantineFile(path);
  const fd = openFd(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0o600);
  if (fd === undefined) {
    throw new Deno.errors.NotFound(`${path} cannot be created: its directory is not there`);
  }
  const file = new WritableFile(fd);
  return checked(file, () => file.stat(), path, startOf(path, undefined));
}

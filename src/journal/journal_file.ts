/**
 * The journal's file, seen as positions that only grow, whatever other processes do to the file:
 * - renamed in its directory (log rotation): it is found by its inode
 * - removed or moved away: reading continues through a descriptor of this process or (if
 *   permissions allow) of the worker; without one, unread bytes are lost
 * - shortened or overwritten: the positions of later bytes follow all earlier ones; unread bytes of
 *   the old content are lost
 * A change is detected if the file is shorter than before, or if its first bytes or the bytes read
 * last differ. Both are compared after each read, so that bytes are never joined to others that
 * they do not follow. If the worker could truncate the file by its name, the file has a header
 * (journal_header.ts), so that truncation is detected even if nothing was read before. If the
 * beginning of a changed file differs, all of its content is new (the file was truncated).
 * Otherwise the content counts as the rest of the old: a record may rather be lost than stored
 * twice. Every change is reported as a record with the lost range of positions; if the amount is
 * unknown, the range is one position. The stored part may be packed (pack_journal.ts) and is read
 * from there. In the file it is a hole after the compared first bytes. A file that another process
 * has changed is never packed.
 *
 * The file is one of (`Holding`):
 *
 * | State | Moves to | When |
 * |---|---|---|
 * | `unopened` | `open` | a file is there, by its name, another name, or a process's descriptor |
 * | `unopened` | `gone` | the worker was started, and the file is nowhere |
 * | `open` | `unopened` | `close` |
 *
 * Its positions and first bytes, for the next proxy, are one of (`Kept`): `unread`, `saved`, or
 * `unsaved` (the last try to write them failed; each look at the file tries again).
 */
import type { RunFiles } from "../base/layout.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import {
  entriesOf,
  infoOf,
  openLogInProxy,
  openRegularLog,
  readRecord,
  readRecordInProxy,
  type RegularFile,
} from "../os/files/untrusted.ts";
import {
  openFile,
  opensForWriting,
  quarantineFile,
  removeRegular,
  setMode,
  writeRecord,
} from "../os/files/untrusted_changes.ts";
import { parentOf } from "../os/files/files.ts";
import { groupMembers } from "../os/processes/identity.ts";
import { PackedLog, packedPath, type Render } from "./packed_log.ts";
import { JOURNAL_HEADER } from "./journal_header.ts";
import type { Logger } from "../base/log.ts";
import { workerRecordIn } from "./worker_record.ts";

/** Number of bytes compared at the beginning of the file, and at the end of the last read. */
const COMPARED_BYTES = 256;
const NOTHING = new Uint8Array(0);
const CHANGED = "the journal was truncated or overwritten (a worker does that with > /dev/stdout)";

/** Which file it was when the worker started, and which processes have it open. */
export interface JournalOrigin {
  /** `device:inode`; undefined if it was not recorded. */
  inode: string | undefined;
  /** The worker's process group. */
  group: number | undefined;
  /** When the worker started, Unix milliseconds. */
  startedAt?: number;
}

interface Shift {
  /**
   * The journal position of the file's offset `skip`; earlier bytes were read, or cannot be read
   * any more.
   */
  base: number;
  skip: number;
  /** Why earlier bytes cannot be read any more. */
  why: string;
  /** The file is removed. */
  gone: boolean;
  /** The amount lost before `base` is unknown. */
  unseen: boolean;
}

const NO_SHIFT: Shift = { base: 0, skip: 0, why: "", gone: false, unseen: false };

export function inodeOf(path: string): string | undefined {
  try {
    const info = infoOf(path);
    return info && textOf(info);
  } catch {
    return undefined;
  }
}

function textOf({ dev, ino }: { dev: number; ino: number | null }): string {
  return `${dev}:${ino}`;
}

/**
 * Creates the file for a worker that is not started yet. The wrapper opens it and then removes the
 * write permission; if that does not prevent opening it (for root), the file gets a header.
 */
export function createJournal(path: string, shiftPath: string): void {
  quarantineFile(path);
  if (infoOf(path) !== undefined) setMode(path, 0o600);
  using file = openFile(path);
  setMode(path, 0o400);
  const writable = opensForWriting(path);
  setMode(path, 0o600);
  if (!writable) return;
  const { size } = file.statSync();
  // An earlier try was interrupted while writing the header.
  if (size < JOURNAL_HEADER.length) {
    file.truncateSync(0);
    for (let done = 0; done < JOURNAL_HEADER.length;) {
      done += file.writeSync(JOURNAL_HEADER.subarray(done));
    }
  }
  writeShift(shiftPath, { ...NO_SHIFT, skip: JOURNAL_HEADER.length }, JOURNAL_HEADER, true);
}

type Opened = Pick<RegularFile, "readSync" | "close"> & {
  stat(): { dev: number; ino: number | null; size: number };
};

/** As a proxy opens it (untrusted.ts). */
class OpenedInProxy implements Opened {
  readonly #file: Deno.FsFile;

  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  stat(): Deno.FileInfo {
    return this.#file.statSync();
  }
  readSync(position: number, into: Uint8Array): number {
    this.#file.seekSync(position, Deno.SeekMode.Start);
    return this.#file.readSync(into) ?? 0;
  }
  close(): void {
    this.#file.close();
  }
}

type Holding =
  | { readonly t: "unopened" }
  | { readonly t: "open"; readonly file: Opened }
  | { readonly t: "gone" };

type Kept = "unread" | "saved" | "unsaved";

export class JournalFile {
  readonly #path: string;
  /** Outlives this process: another proxy must use the same positions. */
  readonly #shiftPath: string | undefined;
  readonly #origin: () => JournalOrigin | undefined;
  readonly #log: Logger | undefined;
  readonly #readOnly: boolean;
  readonly #packed: PackedLog;
  #holding: Holding = { t: "unopened" };
  #shift: Shift = NO_SHIFT;
  /**
   * Of the shift and the head; they are written before the worker starts, and by earlier proxies.
   */
  #kept: Kept = "unread";
  /** The largest position that is known to have existed. */
  #known = 0;
  /** The largest end of the file that this process has seen. */
  #seen = 0;
  /** A caller has reported up to where it had read, or has read. */
  #positionKnown = false;
  /** Bytes of the file from here on do not belong to the journal. */
  #most = Infinity;
  /** The first bytes of the file. */
  #head: Uint8Array = NOTHING;
  /** The bytes read last, and their offset in the file. */
  #mark = { offset: 0, bytes: NOTHING as Uint8Array };

  /**
   * @param options.origin undefined while no worker was started: then a missing file just does not
   * exist yet
   */
  constructor(
    path: string,
    options: {
      shiftPath?: string;
      origin?: () => JournalOrigin | undefined;
      log?: Logger;
      readOnly?: boolean;
      render?: Render;
    } = {},
  ) {
    this.#path = path;
    this.#shiftPath = options.shiftPath;
    this.#origin = options.origin ?? (() => undefined);
    this.#log = options.log;
    this.#readOnly = options.readOnly ?? false;
    this.#packed = new PackedLog(path, options.render);
  }

  static of(
    files: RunFiles,
    attempt: number,
    origin: () => JournalOrigin | undefined,
    log: Logger,
  ): JournalFile {
    return new JournalFile(files.stdout(attempt), {
      shiftPath: files.journalShift(attempt),
      origin,
      log,
    });
  }

  /**
   * The file of an attempt, with its proxies' positions, for a reader that is not a proxy: it
   * writes nothing.
   */
  static left(files: RunFiles, attempt: number, render?: Render): JournalFile {
    const shiftPath = files.journalShift(attempt);
    const { journal: inode, startedAt = NaN } =
      workerRecordIn(readRecord(files.workerFile(attempt))) ?? {};
    // Not through a process: the worker may have ended, and its group's number belong to others.
    const origin = () => inode === undefined ? undefined : { inode, group: undefined, startedAt };
    return new JournalFile(files.stdout(attempt), {
      shiftPath,
      origin,
      readOnly: true,
      ...(render && { render }),
    });
  }

  /** Earlier bytes cannot be read any more. */
  get readableFrom(): number {
    return this.#shift.base;
  }
  get whyLost(): string {
    return this.#shift.why;
  }
  /** How many of the lost bytes were seen; null if unknown. */
  lostFrom(position: number): number | null {
    return this.#shift.unseen ? null : Math.max(0, this.#shift.base - 1 - position);
  }

  /** A caller has read up to this position, so it existed, and continues from it. */
  reached(position: number): void {
    this.#positionKnown = true;
    this.#known = Math.max(this.#known, position);
  }

  /** The position of the end; 0 while there is no file. */
  size(): number {
    const file = this.#open();
    if (file === undefined) return this.#sizeWithout();
    if (this.#kept === "unsaved") this.#save();
    const size = this.#sizeOf(file);
    // The position of a change is known only after a caller has said up to where everything was
    // read.
    if (this.#positionKnown && (this.#end(size) < this.#known || this.#hasChanged(file))) {
      return this.#notice(file);
    }
    this.#known = this.#seen = this.#end(size);
    return this.#known;
  }

  /**
   * Bytes appended from now on do not belong to the journal. A file offset, because positions may
   * be unknown yet.
   */
  endHere(): void {
    this.#most = this.#open()?.stat().size ?? Infinity;
  }

  #sizeOf(file: Opened): number {
    return Math.min(file.stat().size, this.#most);
  }

  #sizeWithout(): number {
    // Reported once, when the position is known; an earlier proxy may have reported it.
    if (this.#holding.t === "gone" && this.#positionKnown && !this.#shift.gone) {
      this.#shiftTo(0, "the journal was removed by somebody else", true);
    }
    // The file was removed, but its packed part still exists.
    const packed = this.#packedEnd();
    return Math.max(this.#known, this.#shift.base, packed > 0 ? this.#end(packed) : 0);
  }

  /** File offset up to which bytes are packed. */
  #packedEnd(): number {
    return this.#wasChanged ? 0 : this.#withPacked((packed) => packed.end(), 0);
  }

  /**
   * What `use` returns. If the worker has put something else, or a link, in the place of the packed
   * part, or has forbidden to read it, a reader gets an error, but a proxy gets `otherwise` and
   * continues with the journal alone, because its run must end.
   */
  #withPacked<T>(use: (packed: PackedLog) => T, otherwise: T): T {
    try {
      return use(this.#packed);
    } catch (error) {
      const isReplaced = error instanceof MosaicError ||
        error instanceof Deno.errors.PermissionDenied;
      if (this.#readOnly || !isReplaced) throw error;
      return otherwise;
    }
  }

  get #wasChanged(): boolean {
    return this.#shift.base > 0;
  }

  /**
   * What may be packed: nothing of a file that another process has changed, removed or replaced.
   * @returns its offset in the file
   */
  packable(position: number): { inode: string; offset: number } | undefined {
    const inode = this.#holding.t === "open" ? textOf(this.#holding.file.stat()) : undefined;
    if (inode === undefined || this.#wasChanged || inodeOf(this.#path) !== inode) return undefined;
    return { inode, offset: position + this.#shift.skip };
  }

  #end(size: number): number {
    return this.#shift.base + size - this.#shift.skip;
  }

  #hasChanged(file: Opened): boolean {
    const { offset, bytes } = this.#mark;
    return !(isAt(file, offset, bytes) || this.#isPackedAt(offset, bytes)) ||
      !isAt(file, 0, this.#head);
  }

  /**
   * For a reader that is not the journal's proxy, the bytes that it read last may have become a
   * hole: the proxy has packed them.
   */
  #isPackedAt(offset: number, bytes: Uint8Array): boolean {
    if (!this.#readOnly || offset + bytes.length > this.#packedEnd()) return false;
    const now = new Uint8Array(bytes.length);
    for (let done = 0; done < now.length;) {
      done += this.#packed.read(offset + done, now.subarray(done));
    }
    return now.every((byte, i) => byte === bytes[i]);
  }

  /** The file is not what it was. @returns the position of its end */
  #notice(file: Opened): number {
    const size = this.#sizeOf(file);
    const left = this.#head.subarray(0, size);
    const emptied = !isAt(file, 0, left);
    // Packed bytes were in the file before; the file itself may have only a hole in their place.
    if (!this.#readOnly) {
      this.#withPacked((packed) => {
        // Its directory may be a link to another run's logs by now.
        if (emptied || size === 0) removeRegular(packedPath(this.#path));
        else packed.cut(size);
      }, undefined);
    }
    const skip = emptied ? 0 : size;
    this.#head = emptied ? NOTHING : left;
    this.#mark = { offset: 0, bytes: NOTHING };
    this.#shiftTo(skip, CHANGED, this.#end(size) >= this.#known);
    return this.#known = this.#seen = this.#end(size);
  }

  /** Reads at a readable position; 0 at the end, and if the file has changed. */
  read(position: number, into: Uint8Array): number {
    this.#positionKnown = true;
    const file = this.#open();
    const offset = position - this.#shift.base + this.#shift.skip;
    if (offset < this.#packedEnd()) {
      const read = this.#packed.read(offset, into);
      this.#known = Math.max(this.#known, position + read);
      return read;
    }
    if (file === undefined) return 0;
    const read = file.readSync(offset, into.subarray(0, Math.max(0, this.#most - offset)));
    if (this.#hasChanged(file)) {
      this.#notice(file);
      return 0;
    }
    if (read === 0) return 0;
    // Its proxy has packed these bytes meanwhile (this process is not its proxy), so they may be a
    // hole.
    if (offset < this.#packedEnd()) return this.read(position, into);
    this.#known = this.#seen = Math.max(this.#known, position + read);
    this.#remember(offset, into.subarray(0, read));
    return read;
  }

  #remember(offset: number, bytes: Uint8Array): void {
    const last = bytes.slice(-COMPARED_BYTES);
    this.#mark = { offset: offset + bytes.length - last.length, bytes: last };
    if (offset > 0 || this.#head.length > 0) return;
    this.#head = bytes.slice(0, COMPARED_BYTES);
    this.#save();
  }

  close(): void {
    this.#packed.close();
    if (this.#holding.t !== "open") return;
    this.#holding.file.close();
    this.#holding = { t: "unopened" };
  }

  #open(): Opened | undefined {
    if (this.#holding.t === "unopened") this.#holding = this.#look();
    return this.#holding.t === "open" ? this.#holding.file : undefined;
  }

  #look(): Holding {
    const file = this.#regular();
    this.#load();
    const origin = this.#origin();
    const isIt = file !== undefined &&
      (origin?.inode === undefined || textOf(file.stat()) === origin.inode);
    if (!isIt && origin?.inode !== undefined) {
      const held = this.#elsewhere(file, { ...origin, inode: origin.inode });
      if (held !== undefined) {
        file?.close();
        return { t: "open", file: held };
      }
    }
    // Another file in its place is a copy (of a moved directory), or it is shorter than what was
    // read, which is detected later.
    if (file !== undefined) return { t: "open", file };
    return { t: origin === undefined ? "unopened" : "gone" };
  }

  /**
   * The journal that was there: under another name, or in the hands of a process of the group.
   * @param now what is in its place
   */
  #elsewhere(
    now: Opened | undefined,
    origin: JournalOrigin & { inode: string },
  ): Opened | undefined {
    const { group, inode, startedAt = NaN } = origin;
    const isCopy = now !== undefined && this.#head.length > 0 && isAt(now, 0, this.#head);
    const renamed = isCopy ? undefined : this.#renamed(inode, startedAt);
    if (renamed !== undefined) return renamed;
    const held = heldBy(group, inode);
    if (held !== undefined) {
      this.#log?.warn(
        { path: this.#path },
        "the journal was removed or replaced; it is read through the worker's end",
      );
    }
    return held;
  }

  /**
   * The number may be another file's by now (the journal was removed, or the directory is a
   * restored copy), so the beginning counts, too; if nothing was read yet, that the file is older
   * than the worker.
   */
  #renamed(inode: string, startedAt: number): Opened | undefined {
    const logs = parentOf(this.#path);
    try {
      for (const { name, isFile } of entriesOf(logs, parentOf(logs))) {
        const path = `${logs}/${name}`;
        if (!isFile || path === this.#path || inodeOf(path) !== inode) continue;
        const isOld = this.#head.length > 0 ||
          (infoOf(path)?.birthtime?.getTime() ?? Infinity) <= startedAt;
        const file = isOld ? this.#regular(path) : undefined;
        if (file !== undefined && textOf(file.stat()) === inode && isAt(file, 0, this.#head)) {
          this.#log?.warn(
            { path: this.#path, renamed: path },
            "the journal was renamed; it is read under its new name",
          );
          return file;
        }
        file?.close();
      }
    } catch (error) {
      // The directory is gone, or the worker has put a link in its place: nothing in it is the
      // journal.
      if (!(error instanceof Deno.errors.NotFound || error instanceof MosaicError)) throw error;
    }
    return undefined;
  }

  /**
   * Anything but a regular file in the journal's place is no journal. Only a proxy may wait for a
   * FIFO.
   */
  #regular(path = this.#path): Opened | undefined {
    try {
      if (this.#readOnly) return openRegularLog(path);
      const file = openLogInProxy(path);
      return file && new OpenedInProxy(file);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
      return undefined;
    }
  }

  /**
   * Gives bytes that are read from now on positions after all earlier ones. @param unseen the end
   * of the earlier bytes is unknown
   */
  #shiftTo(skip: number, why: string, unseen: boolean): void {
    const base = Math.max(this.#known, this.#shift.base) + 1;
    this.#shift = {
      base,
      skip,
      why,
      gone: this.#holding.t === "gone",
      unseen: unseen || this.#seen < this.#known,
    };
    this.#known = base;
    this.#log?.error({ path: this.#path, position: base }, `${why}; unread output is lost`);
    this.#save(true);
  }

  /** For the next proxy. If it fails, the next check of the file tries again. */
  #save(durable = this.#kept === "unsaved"): void {
    if (this.#shiftPath === undefined || this.#readOnly) return;
    try {
      writeShift(this.#shiftPath, this.#shift, this.#head, durable);
      this.#kept = "saved";
    } catch (error) {
      if (this.#kept !== "unsaved") {
        this.#log?.warn({ error: messageOf(error) }, "the journal's positions cannot be kept yet");
      }
      this.#kept = "unsaved";
    }
  }

  #load(): void {
    if (this.#kept !== "unread" || this.#shiftPath === undefined) return;
    const text = this.#readOnly ? readRecord(this.#shiftPath) : readRecordInProxy(this.#shiftPath);
    if (text === undefined) return;
    this.#kept = "saved";
    try {
      const { base, skip, why, gone, unseen, head } = JSON.parse(text) as Shift & { head?: string };
      if (![base, skip].every((n) => Number.isSafeInteger(n) && n >= 0)) return;
      this.#shift = { base, skip, why: String(why), gone: gone === true, unseen: unseen === true };
      if (typeof head === "string") {
        this.#head = Uint8Array.from(atob(head), (c) => c.charCodeAt(0));
      }
    } catch (error) {
      this.#log?.error(
        { error: messageOf(error), path: this.#shiftPath },
        "the journal's positions cannot be read",
      );
    }
  }
}

function writeShift(path: string, shift: Shift, head: Uint8Array, durable: boolean): void {
  writeRecord(path, JSON.stringify({ ...shift, head: btoa(String.fromCharCode(...head)) }), {
    durable,
  });
}

function isAt(file: Opened, offset: number, bytes: Uint8Array): boolean {
  if (bytes.length === 0) return true;
  const now = new Uint8Array(bytes.length);
  const read = file.readSync(offset, now);
  return read === bytes.length && now.every((byte, i) => byte === bytes[i]);
}

/**
 * The file through the standard output of a process of the group; undefined if none has it open, or
 * it cannot be seen.
 */
function heldBy(group: number | undefined, inode: string): Opened | undefined {
  if (group === undefined) return undefined;
  for (const pid of groupMembers(group)) {
    try {
      const path = `/proc/${pid}/fd/1`;
      if (textOf(Deno.statSync(path)) === inode) {
        return new OpenedInProxy(Deno.openSync(path, { read: true }));
      }
    } catch {
      // The process has ended, or its files are not readable.
    }
  }
  return undefined;
}

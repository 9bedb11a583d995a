/**
 * The file behind a journal, as positions that only ever grow, whatever others do to the file:
 *
 * - removed or moved away: read on through the descriptor that this process or (where the permissions allow it) the worker
 *   has; where nobody has one, what was not read is lost
 * - shortened or written over: what is written afterwards follows, in the journal's positions, after what was there
 *   before; what of that was not read is lost
 *
 * A change is noticed when the file is shorter than it was seen to be, or no longer has what it began with or what was
 * read last. Both are compared after each read, so that nothing read is taken for what follows something else. A file
 * that its worker could empty by name has a header (journal_header.ts), so that emptying it is noticed also where nothing
 * was read before. What is in a changed file is new if the file begins otherwise than before (it was emptied), else it is
 * taken for what is left of the old: rather lost than stored twice. Every change is told as a record of its own, with
 * the range of positions that is lost; one position in it stands for what nobody has seen.
 *
 * What is stored may be packed (pack_journal.ts): that part is read from there. In the file it is a hole behind what is
 * compared. Of a file that somebody has changed nothing is packed.
 */
import type { RunFiles } from "../base/layout.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import {
  openLogInProxy,
  openRegularLog,
  quarantineFile,
  readRecord,
  readRecordInProxy,
  type RegularFile,
  writeRecord,
} from "../os/untrusted.ts";
import { groupMembers } from "../os/identity.ts";
import { kindOf } from "../os/file_kinds.ts";
import { removeIfThere } from "../os/files.ts";
import { PackedLog, packedPath, type Render } from "../os/packed_log.ts";
import { JOURNAL_HEADER } from "../base/journal_header.ts";
import type { Logger } from "../base/log.ts";

/** So much of what the file begins with, and of what was read last, is compared. */
const COMPARED_BYTES = 256;
const NOTHING = new Uint8Array(0);
const CHANGED =
  "the journal was emptied, shortened or written over by somebody else (a worker does that with > /dev/stdout)";

/** Which file it was when the worker started, and who has it open. */
export interface JournalOrigin {
  /** `device:inode`; undefined where that was not written down. */
  inode: string | undefined;
  /** The worker's process group. */
  group: number | undefined;
}

interface Shift {
  /** The journal's position at the file's offset `skip`; what is before it was read, or cannot be read any more. */
  base: number;
  skip: number;
  /** Why what is before it cannot be read any more. */
  why: string;
  /** There is no file any more. */
  gone: boolean;
  /** How much was lost before `base` is not known. */
  unseen: boolean;
}

const NO_SHIFT: Shift = { base: 0, skip: 0, why: "", gone: false, unseen: false };

export function inodeOf(path: string): string | undefined {
  try {
    return textOf(Deno.statSync(path));
  } catch {
    return undefined;
  }
}

function textOf({ dev, ino }: { dev: number; ino: number | null }): string {
  return `${dev}:${ino}`;
}

/**
 * Makes the file for a worker that is not started yet. Its wrapper takes away the permission to write once it has opened
 * it; where that does not keep the file from being opened (by root), it gets a header.
 */
export function createJournal(path: string, shiftPath: string): void {
  quarantineFile(path);
  if (kindOf(path) !== undefined) Deno.chmodSync(path, 0o600);
  using file = Deno.openSync(path, { write: true, create: true, mode: 0o600 });
  Deno.chmodSync(path, 0o400);
  const writable = opensForWriting(path);
  Deno.chmodSync(path, 0o600);
  if (!writable) return;
  const { size } = file.statSync();
  // An earlier try was cut short in the middle of it.
  if (size < JOURNAL_HEADER.length) {
    file.truncateSync(0);
    for (let done = 0; done < JOURNAL_HEADER.length;) done += file.writeSync(JOURNAL_HEADER.subarray(done));
  }
  writeShift(shiftPath, { ...NO_SHIFT, skip: JOURNAL_HEADER.length }, JOURNAL_HEADER, true);
}

function opensForWriting(path: string): boolean {
  try {
    Deno.openSync(path, { write: true }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

type Opened = Pick<RegularFile, "readSync" | "close"> & { stat(): { dev: number; ino: number | null; size: number } };

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

export class JournalFile {
  readonly #path: string;
  /** Outlives this process: another proxy must number the positions alike. */
  readonly #shiftPath: string | undefined;
  readonly #origin: () => JournalOrigin | undefined;
  readonly #log: Logger | undefined;
  readonly #readOnly: boolean;
  readonly #packed: PackedLog;
  #file: Opened | undefined;
  #shift: Shift = NO_SHIFT;
  /** It and the head were read from the disk: they are written before the worker starts, and by earlier proxies. */
  #loaded = false;
  #saved = true;
  /** The largest position that is known to have existed. */
  #known = 0;
  /** Up to here the file was seen to reach, by this process. */
  #seen = 0;
  /** Somebody has said where he wants to read, or has read. */
  #asked = false;
  #gone = false;
  /** The file's bytes from here on are nobody's. */
  #most = Infinity;
  /** How the file begins. */
  #head: Uint8Array = NOTHING;
  /** What was read last, and where in the file it is. */
  #mark = { offset: 0, bytes: NOTHING as Uint8Array };

  /** @param options.origin undefined while no worker was started: then a missing file is not there yet */
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

  static of(files: RunFiles, attempt: number, origin: () => JournalOrigin | undefined, log: Logger): JournalFile {
    return new JournalFile(files.stdout(attempt), { shiftPath: files.journalShift(attempt), origin, log });
  }

  /** The file as it lies there, numbered as its proxies numbered it, for who only reads: nothing is written down. */
  static left(files: RunFiles, attempt: number, render?: Render): JournalFile {
    const shiftPath = files.journalShift(attempt);
    return new JournalFile(files.stdout(attempt), { shiftPath, readOnly: true, ...(render && { render }) });
  }

  /** What lies between a position and here cannot be read any more; and why. */
  get readableFrom(): number {
    return this.#shift.base;
  }
  get whyLost(): string {
    return this.#shift.why;
  }
  /** Of them so many bytes were seen to be there; null where that is not known. */
  lostFrom(position: number): number | null {
    return this.#shift.unseen ? null : Math.max(0, this.#shift.base - 1 - position);
  }

  /** Somebody has read up to here, so it was there, and reads on. */
  reached(position: number): void {
    this.#asked = true;
    this.#known = Math.max(this.#known, position);
  }

  /** The position of the end; 0 while there is no file. */
  size(): number {
    const file = this.#open();
    if (file === undefined) return this.#sizeWithout();
    if (!this.#saved) this.#save();
    const size = this.#sizeOf(file);
    // Behind what position a change is, is known only when somebody has said up to where all was read.
    if (this.#asked && (this.#end(size) < this.#known || this.#hasChanged(file))) return this.#notice(file);
    this.#known = this.#seen = this.#end(size);
    return this.#known;
  }

  /** What is appended from now on is not the journal's. As bytes of the file: its positions may not be known yet. */
  endHere(): void {
    this.#most = this.#open()?.stat().size ?? Infinity;
  }

  #sizeOf(file: Opened): number {
    return Math.min(file.stat().size, this.#most);
  }

  #sizeWithout(): number {
    // Reported once, when the position is known; possibly by an earlier proxy already.
    if (this.#gone && this.#asked && !this.#shift.gone) {
      this.#shiftTo(0, "the journal was removed by somebody else", true);
    }
    // Somebody has removed the file, and what is packed of it is still there.
    const packed = this.#packedEnd();
    return Math.max(this.#known, this.#shift.base, packed > 0 ? this.#end(packed) : 0);
  }

  /** Up to this offset of the file its bytes are packed. */
  #packedEnd(): number {
    return this.#wasChanged ? 0 : this.#packed.end();
  }

  get #wasChanged(): boolean {
    return this.#shift.base > 0;
  }

  /** What may be packed: nothing of a file that somebody has changed, removed or replaced. @returns its offset in the file */
  packable(position: number): { inode: string; offset: number } | undefined {
    const inode = this.#file && textOf(this.#file.stat());
    if (inode === undefined || this.#wasChanged || inodeOf(this.#path) !== inode) return undefined;
    return { inode, offset: position + this.#shift.skip };
  }

  #end(size: number): number {
    return this.#shift.base + size - this.#shift.skip;
  }

  #hasChanged(file: Opened): boolean {
    const { offset, bytes } = this.#mark;
    return !(isAt(file, offset, bytes) || this.#isPackedAt(offset, bytes)) || !isAt(file, 0, this.#head);
  }

  /** What a reader that is not the journal's proxy read last may have become a hole meanwhile: its proxy has packed it. */
  #isPackedAt(offset: number, bytes: Uint8Array): boolean {
    if (!this.#readOnly || offset + bytes.length > this.#packedEnd()) return false;
    const now = new Uint8Array(bytes.length);
    for (let done = 0; done < now.length;) done += this.#packed.read(offset + done, now.subarray(done));
    return now.every((byte, i) => byte === bytes[i]);
  }

  /** The file is not what it was. @returns the position of its end */
  #notice(file: Opened): number {
    const size = this.#sizeOf(file);
    const left = this.#head.subarray(0, size);
    const emptied = !isAt(file, 0, left);
    // What is packed was in the file before; of what is left of that, the file itself may have only a hole.
    if (!this.#readOnly) {
      if (emptied || size === 0) removeIfThere(packedPath(this.#path));
      else this.#packed.cut(size);
    }
    const skip = emptied ? 0 : size;
    this.#head = emptied ? NOTHING : left;
    this.#mark = { offset: 0, bytes: NOTHING };
    this.#shiftTo(skip, CHANGED, this.#end(size) >= this.#known);
    return this.#known = this.#seen = this.#end(size);
  }

  /** Reads at a position that is readable; 0 at the end, and where the file has changed. */
  read(position: number, into: Uint8Array): number {
    this.#asked = true;
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
    // Its proxy has packed it meanwhile (this process is not its proxy), and it may be a hole.
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
    this.#file?.close();
    this.#file = undefined;
  }

  #open(): Opened | undefined {
    if (this.#file !== undefined || this.#gone) return this.#file;
    const file = this.#regular();
    this.#load();
    const origin = this.#origin();
    const isIt = file !== undefined && (origin?.inode === undefined || textOf(file.stat()) === origin.inode);
    if (isIt || origin === undefined) return this.#file = file;
    const held = origin.inode === undefined ? undefined : heldBy(origin.group, origin.inode);
    if (held !== undefined) {
      file?.close();
      this.#log?.warn({ path: this.#path }, "the journal was removed or replaced; it is read through the worker's end");
      return this.#file = held;
    }
    // Another file in its place is a copy (a directory that was moved), or shorter than what was read, and then noticed.
    if (file !== undefined) return this.#file = file;
    this.#gone = true;
    return undefined;
  }

  /** What is in the journal's place and is no regular file is no journal. Only a proxy may wait for a FIFO. */
  #regular(): Opened | undefined {
    try {
      if (this.#readOnly) return openRegularLog(this.#path);
      const file = openLogInProxy(this.#path);
      return file && new OpenedInProxy(file);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
      return undefined;
    }
  }

  /**
   * What is read from now on begins behind everything that was.
   * @param unseen nobody has seen how far it went
   */
  #shiftTo(skip: number, why: string, unseen: boolean): void {
    const base = Math.max(this.#known, this.#shift.base) + 1;
    this.#shift = { base, skip, why, gone: this.#gone, unseen: unseen || this.#seen < this.#known };
    this.#known = base;
    this.#log?.error({ path: this.#path, position: base }, `${why}; what was not read before is lost`);
    this.#save(true);
  }

  /** For another proxy. Where it fails, the next check of the file tries again. */
  #save(durable = !this.#saved): void {
    if (this.#shiftPath === undefined || this.#readOnly) return;
    try {
      writeShift(this.#shiftPath, this.#shift, this.#head, durable);
      this.#saved = true;
    } catch (error) {
      if (this.#saved) this.#log?.warn({ error: messageOf(error) }, "the journal's positions cannot be kept yet");
      this.#saved = false;
    }
  }

  #load(): void {
    if (this.#loaded || this.#shiftPath === undefined) return;
    const text = this.#readOnly ? readRecord(this.#shiftPath) : readRecordInProxy(this.#shiftPath);
    this.#loaded = text !== undefined;
    try {
      const { base, skip, why, gone, unseen, head } = JSON.parse(text ?? "{}") as Shift & { head?: string };
      if (![base, skip].every((n) => Number.isSafeInteger(n) && n >= 0)) return;
      this.#shift = { base, skip, why: String(why), gone: gone === true, unseen: unseen === true };
      if (typeof head === "string") this.#head = Uint8Array.from(atob(head), (c) => c.charCodeAt(0));
    } catch (error) {
      this.#log?.error({ error: messageOf(error), path: this.#shiftPath }, "the journal's positions cannot be read");
    }
  }
}

function writeShift(path: string, shift: Shift, head: Uint8Array, durable: boolean): void {
  writeRecord(path, JSON.stringify({ ...shift, head: btoa(String.fromCharCode(...head)) }), { durable });
}

function isAt(file: Opened, offset: number, bytes: Uint8Array): boolean {
  if (bytes.length === 0) return true;
  const now = new Uint8Array(bytes.length);
  const read = file.readSync(offset, now);
  return read === bytes.length && now.every((byte, i) => byte === bytes[i]);
}

/** The file through the standard output of a process of the group; undefined where none has it or we may not see it. */
function heldBy(group: number | undefined, inode: string): Opened | undefined {
  if (group === undefined) return undefined;
  for (const pid of groupMembers(group)) {
    try {
      const path = `/proc/${pid}/fd/1`;
      if (textOf(Deno.statSync(path)) === inode) return new OpenedInProxy(Deno.openSync(path, { read: true }));
    } catch {
      // Gone, or not readable.
    }
  }
  return undefined;
}

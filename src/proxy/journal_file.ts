/**
 * The file behind a journal, as positions that only ever grow, whatever others do to the file:
 *
 * - removed or moved away: read on through the descriptor that this process or (where the permissions let us look) the worker
 *   has; where nobody has one, what was not read is lost
 * - shortened: what is written afterwards follows, in the journal's positions, after what was there before; what of that
 *   was not read is lost
 *
 * A shortening is noticed when the file is shorter than it was seen to be; one that the worker has made up for between
 * two looks cannot be noticed. What is then in the file is new if the file begins otherwise than before (it was emptied),
 * else it is taken for what is left of the old: rather lost than stored twice. What is lost is known as a range of
 * positions, and told as a record of its own.
 */
import type { RunFiles } from "../base/layout.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { openLogInProxy, readRecordInProxy, writeRecord } from "../os/untrusted.ts";
import { groupMembers } from "../os/identity.ts";
import type { ProxyLog } from "./proxy_log.ts";

/** By how a file begins, one that was emptied is told from one that was cut. */
const HEAD_BYTES = 256;

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
  /** What was lost before `base` was never seen: its size is not known, and one byte stands for it. */
  unseen: boolean;
}

export function inodeOf(path: string): string | undefined {
  try {
    return textOf(Deno.statSync(path));
  } catch {
    return undefined;
  }
}

function textOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev}:${ino}`;
}

export class JournalFile {
  readonly #path: string;
  /** Outlives this process: another proxy must number the positions alike. */
  readonly #shiftPath: string | undefined;
  readonly #origin: () => JournalOrigin | undefined;
  readonly #log: ProxyLog | undefined;
  #file: Deno.FsFile | undefined;
  #shift: Shift;
  /** The largest position that is known to have existed. */
  #known = 0;
  /** Up to here the file was seen to reach, by this process. */
  #seen = 0;
  /** Somebody has said where he wants to read. */
  #asked = false;
  #gone = false;
  /** How the file begins. */
  #head = new Uint8Array(0);

  /** @param options.origin undefined while no worker was started: then a missing file is not there yet */
  constructor(
    path: string,
    options: { shiftPath?: string; origin?: () => JournalOrigin | undefined; log?: ProxyLog } = {},
  ) {
    this.#path = path;
    this.#shiftPath = options.shiftPath;
    this.#origin = options.origin ?? (() => undefined);
    this.#log = options.log;
    this.#shift = this.#savedShift();
  }

  static of(files: RunFiles, attempt: number, origin: () => JournalOrigin | undefined, log: ProxyLog): JournalFile {
    return new JournalFile(files.stdout(attempt), { shiftPath: files.journalShift(attempt), origin, log });
  }

  /** What lies between a position and here cannot be read any more; and why. */
  get readableFrom(): number {
    return this.#shift.base;
  }
  get whyLost(): string {
    return this.#shift.why;
  }
  /** Of them so many bytes; null where that cannot be known. */
  lostFrom(position: number): number | null {
    return this.#shift.unseen ? null : this.#shift.base - position;
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
    const { size } = file.statSync();
    if (this.#end(size) < this.#known) {
      this.#shiftTo(this.#beginsAnew(file) ? 0 : size, "the journal was shortened by somebody else");
      this.#head = new Uint8Array(0);
    }
    this.#known = this.#seen = Math.max(this.#known, this.#end(size));
    return this.#end(size);
  }

  #sizeWithout(): number {
    // Told once, when it is known from where on; by an earlier proxy already, maybe.
    if (this.#gone && this.#asked && !this.#shift.gone) this.#shiftTo(0, "the journal was removed by somebody else");
    return Math.max(this.#known, this.#shift.base);
  }

  #end(size: number): number {
    return this.#shift.base + size - this.#shift.skip;
  }

  #beginsAnew(file: Deno.FsFile): boolean {
    const now = new Uint8Array(this.#head.length);
    file.seekSync(0, Deno.SeekMode.Start);
    const read = file.readSync(now) ?? 0;
    return now.subarray(0, read).some((byte, i) => byte !== this.#head[i]);
  }

  /** Reads at a position that is readable; 0 at the end. */
  read(position: number, into: Uint8Array): number {
    const file = this.#open();
    if (file === undefined) return 0;
    const offset = position - this.#shift.base + this.#shift.skip;
    file.seekSync(offset, Deno.SeekMode.Start);
    const read = file.readSync(into) ?? 0;
    this.#known = this.#seen = Math.max(this.#known, position + read);
    if (offset === 0 && read > this.#head.length) this.#head = into.slice(0, Math.min(read, HEAD_BYTES));
    return read;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #open(): Deno.FsFile | undefined {
    if (this.#file !== undefined || this.#gone) return this.#file;
    const file = this.#regular();
    const origin = this.#origin();
    const isIt = file !== undefined && (origin?.inode === undefined || textOf(file.statSync()) === origin.inode);
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

  /** What is in the journal's place and is no regular file is no journal. */
  #regular(): Deno.FsFile | undefined {
    try {
      return openLogInProxy(this.#path);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
      return undefined;
    }
  }

  /** What is read from now on begins behind everything that was. */
  #shiftTo(skip: number, why: string): void {
    // Nobody has seen how far it went since the last who read it.
    const unseen = this.#gone || this.#seen < this.#known;
    const base = Math.max(this.#known, this.#shift.base) + (unseen ? 1 : 0);
    this.#shift = { base, skip, why, gone: this.#gone, unseen };
    this.#known = base;
    this.#log?.error({ path: this.#path, position: base }, `${why}; what was not read before is lost`);
    if (this.#shiftPath === undefined) return;
    try {
      writeRecord(this.#shiftPath, JSON.stringify(this.#shift));
    } catch (error) {
      this.#log?.warn({ error: messageOf(error) }, "that cannot be noted for another proxy");
    }
  }

  #savedShift(): Shift {
    const none = { base: 0, skip: 0, why: "", gone: false, unseen: false };
    if (this.#shiftPath === undefined) return none;
    try {
      const { base, skip, why, gone, unseen } = JSON.parse(readRecordInProxy(this.#shiftPath) ?? "{}") as Shift;
      const whole = [base, skip].every((n) => Number.isSafeInteger(n) && n >= 0);
      return whole ? { base, skip, why: String(why), gone: gone === true, unseen: unseen === true } : none;
    } catch {
      return none;
    }
  }
}

/** The file through the standard output of a process of the group; undefined where none has it or we may not look. */
function heldBy(group: number | undefined, inode: string): Deno.FsFile | undefined {
  if (group === undefined) return undefined;
  for (const pid of groupMembers(group)) {
    try {
      const path = `/proc/${pid}/fd/1`;
      if (textOf(Deno.statSync(path)) === inode) return Deno.openSync(path, { read: true });
    } catch {
      // Gone, or not to be looked at.
    }
  }
  return undefined;
}

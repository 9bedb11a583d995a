/**
 * Gives back the disk that a journal takes (docs/architecture.md, "What becomes of a journal"). What the daemon has stored
 * is packed into the file beside the journal; when that is synced to the disk, the journal's own blocks are given back.
 * So the worker's output is whole on the disk at every moment, in one of the two, whatever the database loses.
 *
 * The first and the last bytes stay in the journal: what it is known by, and what `head` and `tail` show.
 */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { removeIfThere, syncDirectory } from "../os/files.ts";
import { CHUNK_BYTES, HOLE_BYTES, packChunk, PackedLog, packedPath } from "../os/packed_log.ts";
import { askShellLater } from "../os/shell.ts";
import { openLogForWriting, openRegularLog, type RegularFile } from "../os/untrusted.ts";
import { inodeOf, type JournalFile } from "./journal_file.ts";

const HEAD_BYTES = HOLE_BYTES;
const TAIL_BYTES = 64 << 10;
/** Each round syncs the disk and starts a shell. */
const ROUND_BYTES = 8 << 20;
/** Where no hole could be made, the next is tried after so many rounds' bytes. */
const RARELY = 8;
/** A smaller journal stays as it is. */
const LEAST_BYTES = 256 << 10;

/**
 * The wrapper has taken the permission to write from the journal, and giving back is writing. The file is named by this
 * process's descriptor, because a worker may put a link in its place.
 */
const MAKE_HOLE = `
chmod 600 "/proc/$0/fd/$1"
command -p fallocate --punch-hole --offset "$2" --length "$3" "/proc/$0/fd/$1"
_code=$?
chmod 400 "/proc/$0/fd/$1"
exit $_code
`;

/** The file that is packed: how long it is, and what of it may be, undefined where it is another than it was. */
export type Packable = Pick<JournalFile, "size" | "packable">;

export interface PackerOptions {
  roundBytes?: number;
  makeHole?: typeof makeHole;
  /** Somebody waits for this to end: what is packed by then is whole. */
  isStopped?: () => boolean;
}

export class JournalPacker {
  readonly #path: string;
  readonly #journal: Packable;
  readonly #log: Logger;
  readonly #roundBytes: number;
  #running: Promise<void> | undefined;
  /** The file's offset from which a round is worth its cost. */
  #next: number;
  /** False where no hole could be made last: then the journal is given back at its end. */
  #makesHoles = true;

  readonly #makeHole: typeof makeHole;
  readonly #isStopped: () => boolean;

  constructor(path: string, journal: Packable, log: Logger, options: PackerOptions = {}) {
    const { roundBytes = ROUND_BYTES } = options;
    this.#path = path;
    this.#journal = journal;
    this.#log = log;
    this.#makeHole = options.makeHole ?? makeHole;
    this.#isStopped = options.isStopped ?? (() => false);
    this.#next = this.#roundBytes = roundBytes;
  }

  /** The journal is stored up to a position: packs in the background when there is enough. */
  stored(position: number): void {
    if (this.#running !== undefined || position < this.#next) return;
    this.#running = this.#round(position, this.#roundBytes).finally(() => this.#running = undefined);
  }

  /** Resolves when nothing is done in the background. */
  async settled(): Promise<void> {
    await this.#running;
  }

  /** The worker has ended: nothing is added to the journal any more. */
  async finish(): Promise<void> {
    await this.#running;
    const size = this.#journal.size();
    if (size < LEAST_BYTES) return;
    await this.#round(size, 1);
    if (!this.#makesHoles) await this.#trying(() => this.#replace(size));
  }

  /** @param least bytes that are worth packing */
  async #round(position: number, least: number): Promise<void> {
    this.#next = position + this.#roundBytes;
    await this.#trying(async () => {
      using opened = this.#open(position);
      if (opened === undefined) return;
      using packed = new PackedLog(this.#path);
      if (packed.hasLostEnd()) {
        // What is a hole by now would be packed in its place.
        this.#next = Infinity;
        this.#log.warn({ path: packedPath(this.#path) }, "the end of the packed log is damaged: no more is packed");
        return;
      }
      const isWorthIt = opened.to - packed.end() >= least && !packed.isFull();
      const packTo = isWorthIt ? opened.to : packed.end();
      if (packTo === 0) return;
      await this.#pack(opened.file, packed, packTo);
      // What was packed of a file that is another one by now is not what the journal was.
      this.#journal.size();
      if (this.#journal.packable(position)?.inode !== opened.inode) return removeIfThere(packedPath(this.#path));
      // Never what is not stored yet, whatever a worker has written there.
      const end = blocks(Math.min(packed.end(), opened.to) - TAIL_BYTES);
      if (end <= HEAD_BYTES) return;
      const madeHoles = this.#makesHoles;
      this.#makesHoles = await this.#makeHole(opened.file, HEAD_BYTES, end);
      if (this.#makesHoles) return;
      // For good (a file system without holes), or for now (a full disk).
      this.#next = position + RARELY * this.#roundBytes;
      if (madeHoles) this.#log.info({ path: this.#path }, "cannot free parts of the journal on this file system now");
    });
  }

  /** What fails is tried again with the next round: all that is not packed is in the journal. */
  async #trying(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#log.warn({ path: this.#path, error: messageOf(error) }, "the journal cannot be packed now");
    }
  }

  #open(position: number): { file: RegularFile; inode: string; to: number; [Symbol.dispose](): void } | undefined {
    const journal = this.#journal.packable(position);
    const file = journal && openRegularLog(this.#path);
    if (file === undefined) return undefined;
    const { dev, ino, size } = file.stat();
    const to = Math.min(journal!.offset, size);
    if (`${dev}:${ino}` === journal!.inode) {
      return {
        file,
        inode: journal!.inode,
        to,
        [Symbol.dispose]: () => file.close(),
      };
    }
    file.close();
    return undefined;
  }

  /** Appends what is missing, and syncs all: also what an earlier process has left unsynced. */
  async #pack(journal: RegularFile, packed: PackedLog, to: number): Promise<void> {
    let from = packed.end();
    // What an earlier process has begun and not ended is written again.
    const begin = packed.wholeBytes();
    let at = begin;
    using file = openLogForWriting(packedPath(this.#path));
    await file.truncate(at);
    const buffer = new Uint8Array(CHUNK_BYTES);
    while (from < to && !this.#isStopped()) {
      const read = await journal.read(from, buffer.subarray(0, Math.min(CHUNK_BYTES, to - from)));
      if (read === 0) break;
      const chunk = await packChunk(from, buffer.subarray(0, read));
      await file.write(at, chunk);
      at += chunk.length;
      from += read;
    }
    try {
      await file.syncData();
    } catch (error) {
      // What a disk has refused once is not told again: nobody may take it for packed.
      await file.truncate(begin);
      throw error;
    }
    if (packed.wholeBytes() < at) throw new Error(`${packedPath(this.#path)} was changed by somebody else`);
    syncDirectory(parentOf(this.#path));
  }

  /** A file of the same length that has only the first and the last bytes takes the journal's place. */
  async #replace(position: number): Promise<void> {
    using opened = this.#open(position);
    using packed = new PackedLog(this.#path);
    const { size } = opened?.file.stat() ?? { size: 0 };
    const end = blocks(size - TAIL_BYTES);
    if (opened === undefined || packed.end() !== size || end <= HEAD_BYTES) return;
    const temporary = `${this.#path}.${crypto.randomUUID().slice(0, 8)}.tmp`;
    try {
      using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o400 });
      await file.truncate(size);
      for (const [from, to] of [[0, HEAD_BYTES], [end, size]] as const) {
        const bytes = new Uint8Array(to - from);
        await opened.file.read(from, bytes);
        await file.seek(from, Deno.SeekMode.Start);
        for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
      }
      await file.syncData();
      await Deno.rename(temporary, this.#path);
    } finally {
      removeIfThere(temporary);
    }
  }
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

function blocks(bytes: number): number {
  return Math.floor(bytes / HOLE_BYTES) * HOLE_BYTES;
}

/**
 * A log to which nothing is added any more: that of standard error, or one whose proxy was killed before it had packed it.
 * One that is packed and given back, or is not what was packed, stays as it is.
 *
 * @param journal the log as a journal, if it is one: of one that somebody has changed nothing is packed
 */
export async function packEndedLog(
  path: string,
  log: Logger,
  options: { journal?: Packable; isStopped?: () => boolean } = {},
): Promise<void> {
  const inode = inodeOf(path);
  if (inode === undefined) return;
  try {
    const { size, blocks } = Deno.statSync(path);
    using packed = new PackedLog(path);
    const isGivenBack = packed.end() === size && blocks! * 512 < size;
    if (isGivenBack || packed.end() > size) return;
    const ended = {
      size: () => size,
      packable: (offset: number) => inodeOf(path) === inode ? { inode, offset } : undefined,
    };
    const { journal = ended, isStopped } = options;
    await new JournalPacker(path, journal, log, isStopped && { isStopped }).finish();
  } catch (error) {
    // A worker has put something else in the place of the packed log.
    log.warn({ path, error: messageOf(error) }, "cannot pack the log");
  }
}

/** Gives back the blocks between two offsets. @returns whether that is possible here */
async function makeHole(file: RegularFile, from: number, to: number): Promise<boolean> {
  const words = [Deno.pid, file.descriptor, from, to - from].map(String);
  return await askShellLater(MAKE_HOLE, ...words) !== undefined;
}

/**
 * Frees the disk space of a journal (docs/explanation/architecture.md, "What becomes of a
 * journal"). Stored parts are packed into the file beside the journal; when that is synced to disk,
 * the journal's own blocks are freed. So at every moment the worker's whole output is on disk, in
 * one of the two, whatever happens to the database. The first and the last bytes stay in the
 * journal: they identify it, and `head` and `tail` show them.
 */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { parentOf, syncDirectory } from "../os/files/files.ts";
import { CHUNK_BYTES, HOLE_BYTES, packChunk, PackedLog, packedPath } from "./packed_log.ts";
import { shellOutputLater } from "../os/processes/external_program.ts";
import { infoOf, openRegularLog, type RegularFile } from "../os/files/untrusted.ts";
import {
  createFile,
  openLogForWriting,
  removeFile,
  removeRegular,
  renameFile,
} from "../os/files/untrusted_changes.ts";
import { inodeOf, type JournalFile } from "./journal_file.ts";

const HEAD_BYTES = HOLE_BYTES;
const TAIL_BYTES = 64 << 10;
/** Each round syncs the disk and starts a shell. */
const ROUND_BYTES = 8 << 20;
/** After a hole could not be made, the next try is after this many rounds. */
const RARELY = 8;
/** A smaller journal is not packed. */
const LEAST_BYTES = 256 << 10;

/**
 * The wrapper has removed the write permission from the journal, and making a hole is a write. The
 * file is named by this process's descriptor, because a worker may put a link in its place.
 */
const MAKE_HOLE = `
chmod 600 "/proc/$0/fd/$1"
command -p fallocate --punch-hole --offset "$2" --length "$3" "/proc/$0/fd/$1"
_code=$?
chmod 400 "/proc/$0/fd/$1"
exit $_code
`;

/**
 * The file that is packed: its size, and which part may be packed; undefined if the file was
 * replaced.
 */
export type Packable = Pick<JournalFile, "size" | "packable">;

export interface PackerOptions {
  roundBytes?: number;
  makeHole?: typeof makeHole;
  /** The caller waits for this to end; what is packed by then is complete. */
  isStopped?: () => boolean;
}

export class JournalPacker {
  readonly #path: string;
  readonly #journal: Packable;
  readonly #log: Logger;
  readonly #roundBytes: number;
  #running: Promise<void> | undefined;
  /** The file offset from which a round is worth its cost. */
  #next: number;
  /** False if the last hole could not be made: then the space is freed at the journal's end. */
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

  /** The journal is stored up to a position: packs in the background if there is enough. */
  stored(position: number): void {
    if (this.#running !== undefined || position < this.#next) return;
    this.#running = this.#round(position, this.#roundBytes).finally(() =>
      this.#running = undefined
    );
  }

  /** Resolves when no background work is left. */
  async settled(): Promise<void> {
    await this.#running;
  }

  /** The worker has ended: the journal does not grow any more. */
  async finish(): Promise<void> {
    await this.#running;
    const size = this.#journal.size();
    if (size < LEAST_BYTES) return;
    await this.#round(size, 1);
    if (!this.#makesHoles) await this.#trying(() => this.#replace(size));
  }

  /** @param least bytes that are worth a round */
  async #round(position: number, least: number): Promise<void> {
    this.#next = position + this.#roundBytes;
    await this.#trying(async () => {
      using opened = this.#open(position);
      if (opened === undefined) return;
      using packed = new PackedLog(this.#path);
      if (packed.hasLostEnd()) {
        // Otherwise a hole would be packed in the place of data.
        this.#next = Infinity;
        const path = packedPath(this.#path);
        this.#log.warn(
          { path },
          "the packed log was removed, or its end is damaged: no more is packed",
        );
        return;
      }
      const isWorthIt = opened.to - packed.end() >= least && !packed.isFull();
      const packTo = isWorthIt ? opened.to : packed.end();
      if (packTo === 0) return;
      await this.#pack(opened.file, packed, packTo);
      // If the file was replaced since, the packed bytes are not the journal's.
      this.#journal.size();
      if (this.#journal.packable(position)?.inode !== opened.inode) {
        // Its directory may be a link to another run's logs by now.
        return removeRegular(packedPath(this.#path));
      }
      // Never bytes that are not stored yet, whatever a worker has written there.
      const end = blocks(Math.min(packed.end(), opened.to) - TAIL_BYTES);
      if (end <= HEAD_BYTES) return;
      const madeHoles = this.#makesHoles;
      this.#makesHoles = await this.#makeHole(opened.file, HEAD_BYTES, end);
      if (this.#makesHoles) return;
      // Permanent (a file system without holes), or temporary (a full disk).
      this.#next = position + RARELY * this.#roundBytes;
      if (madeHoles) {
        this.#log.info(
          { path: this.#path },
          "cannot free parts of the journal on this file system now",
        );
      }
    });
  }

  /** A failure is retried with the next round: everything that is not packed is in the journal. */
  async #trying(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#log.warn(
        { path: this.#path, error: messageOf(error) },
        "the journal cannot be packed now",
      );
    }
  }

  #open(
    position: number,
  ): { file: RegularFile; inode: string; to: number; [Symbol.dispose](): void } | undefined {
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

  /**
   * Appends what is missing, and syncs everything, including what an earlier process left unsynced.
   */
  async #pack(journal: RegularFile, packed: PackedLog, to: number): Promise<void> {
    let from = packed.end();
    // A chunk that an earlier process has begun and not completed is written again.
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
      // A disk reports a failed write only once, so these bytes must not count as packed.
      await file.truncate(begin);
      throw error;
    }
    if (packed.wholeBytes() < at) {
      throw new Error(`${packedPath(this.#path)} was changed by somebody else`);
    }
    syncDirectory(parentOf(this.#path));
  }

  /** Replaces the journal by a file of the same length that has only its first and last bytes. */
  async #replace(position: number): Promise<void> {
    using opened = this.#open(position);
    using packed = new PackedLog(this.#path);
    const { size } = opened?.file.stat() ?? { size: 0 };
    const end = blocks(size - TAIL_BYTES);
    if (opened === undefined || packed.end() !== size || end <= HEAD_BYTES) return;
    const temporary = `${this.#path}.${crypto.randomUUID().slice(0, 8)}.tmp`;
    try {
      using file = createFile(temporary, 0o400);
      await file.truncate(size);
      for (const [from, to] of [[0, HEAD_BYTES], [end, size]] as const) {
        const bytes = new Uint8Array(to - from);
        await opened.file.read(from, bytes);
        await file.seek(from, Deno.SeekMode.Start);
        for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
      }
      await file.syncData();
      renameFile(temporary, this.#path);
    } finally {
      removeFile(temporary);
    }
  }
}

function blocks(bytes: number): number {
  return Math.floor(bytes / HOLE_BYTES) * HOLE_BYTES;
}

/**
 * Packs a log that does not grow any more: standard error, or a journal whose proxy was killed
 * before it had packed it. If it is packed already, or was changed since, it stays as it is.
 * @param journal the log as a journal, if it is one: a changed one is not packed
 */
export async function packEndedLog(
  path: string,
  log: Logger,
  options: { journal?: Packable; isStopped?: () => boolean } = {},
): Promise<void> {
  const inode = inodeOf(path);
  if (inode === undefined) return;
  try {
    const { size, blocks } = infoOf(path)!;
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
    // A worker has put something else in the packed log's place.
    log.warn({ path, error: messageOf(error) }, "cannot pack the log");
  }
}

/** Frees the blocks between two offsets. @returns whether that is possible here */
async function makeHole(file: RegularFile, from: number, to: number): Promise<boolean> {
  const words = [Deno.pid, file.descriptor, from, to - from].map(String);
  return await shellOutputLater(MAKE_HOLE, ...words) !== undefined;
}

/**
 * A file that reserves disk space. Deleting it frees the space for operations that must work on a
 * full disk: moving a write-ahead log into its database, cancelling, ending and deleting runs.
 * Contains random bytes, because a file system may store zeros or holes without using space.
 */
import { parentOf } from "./files.ts";
import { disk, diskAtStart } from "../host/host_resources.ts";
import { messageOf } from "../../base/errors.ts";

/** Maximum share of a small file system. */
const SHARE = 1 / 16;
const LEAST_BYTES = 256 << 10;
const CHUNK_BYTES = 1 << 20;
/**
 * Left free by an incomplete reserve, for small files of running work (daemon.json, exit records).
 */
const SLACK_BYTES = 64 << 10;

/**
 * @param most size on a large file system: an existing reserve of that size shows that the file
 * system is large
 */
export function reserveAt(path: string, most: number): Reserve {
  const largest = new Reserve(path, most);
  if (largest.whole) return largest;
  const { total } = diskAtStart(parentOf(path));
  // Without permission to ask, assume a large disk.
  return total === 0
    ? largest
    : new Reserve(path, Math.min(most, Math.max(LEAST_BYTES, Math.floor(total * SHARE))));
}

export class Reserve {
  readonly #path: string;
  readonly bytes: number;

  constructor(path: string, bytes: number) {
    this.#path = path;
    this.bytes = bytes;
  }

  /** Whether all of the space is reserved. */
  get whole(): boolean {
    return this.#reserved === this.bytes;
  }

  /** Bytes reserved; 0 if the file was not written by make(). */
  get #reserved(): number {
    try {
      const { isFile, size, blocks } = Deno.lstatSync(this.#path);
      return isFile && size <= this.bytes && (blocks === null || blocks * 512 >= size / 2)
        ? size
        : 0;
    } catch {
      return 0;
    }
  }

  /** Whether the disk has enough free space for the missing part; false if unknown. */
  get fits(): boolean {
    return disk(parentOf(this.#path)).available >= this.bytes - this.#reserved;
  }

  /**
   * Reserves the space. If the disk has too little, keeps nearly all of it: otherwise the next
   * program that fills the disk takes that, too, and no space is left for a write that must
   * succeed.
   * @param measure asks for the disk's space
   * @returns whether all of it is reserved
   */
  make(measure = disk): boolean {
    const reserved = this.#reserved;
    if (reserved === this.bytes) return true;
    if (reserved === 0) this.release();
    const { total, available } = measure(parentOf(this.#path));
    const fits = total === 0 || available >= this.bytes - reserved;
    try {
      this.#grow(
        reserved,
        fits ? this.bytes : Math.min(this.bytes, reserved + available - SLACK_BYTES),
      );
      return fits;
    } catch (error) {
      if (/no space|quota/i.test(messageOf(error))) return false;
      throw error;
    }
  }

  #grow(from: number, to: number): void {
    if (to <= from) return;
    const file = Deno.openSync(this.#path, { append: true, create: true, mode: 0o600 });
    let size = from;
    try {
      const chunk = randomBytes(Math.min(to - size, CHUNK_BYTES));
      while (size < to) {
        size += file.writeSync(chunk.subarray(0, Math.min(to - size, chunk.length)));
      }
    } catch (error) {
      // Another program was faster, or a quota ends before the disk does.
      file.truncateSync(Math.max(from, size - SLACK_BYTES));
      throw error;
    } finally {
      file.close();
    }
  }

  /** Frees the space. */
  release(): void {
    try {
      Deno.removeSync(this.#path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/**
 * Runs work, such as a migration, before WithReserve exists: on a full disk it is repeated with the
 * space of the reserve.
 */
export function withSpaceOf<T>(
  reserve: Reserve | undefined,
  isFull: (error: unknown) => boolean,
  work: () => T,
): T {
  try {
    return work();
  } catch (error) {
    if (reserve === undefined || !isFull(error)) throw error;
    reserve.release();
    return work();
  }
}

/** Interval between attempts to reserve the space again. */
const REFILL_MS = 1000;
/** Moving a smaller log frees too little. */
const LEAST_LOG_BYTES = 64 << 10;

/** The database that a reserve belongs to. */
export interface Reserved {
  isFull: (error: unknown) => boolean;
  /** Error of ordinary writes while the reserve is incomplete. */
  full: () => Error;
  logBytes: () => number;
  /** Moves the log into the database. @returns whether the log is empty */
  emptyLog: () => boolean;
}

/** Executes a database's writes with its reserve. */
export class WithReserve {
  readonly #reserve: Reserve | undefined;
  readonly #of: Reserved;
  /** The reserve is incomplete. */
  #short = false;
  /** Whether `fits` can be trusted. */
  #trustsFits = true;
  /** No further attempt to free space before this time (monotonic). */
  #notBefore = -Infinity;

  constructor(reserve: Reserve | undefined, of: Reserved) {
    this.#reserve = reserve;
    this.#of = of;
  }

  /** Call after opening the database. */
  begin(): void {
    if (this.#reserve === undefined || this.#reserve.make(diskAtStart)) return;
    this.#short = true;
    this.relieve();
  }

  /** An ordinary write: may not use the reserve, but may use space freed by moving the log. */
  write<T>(work: () => T): T {
    this.require();
    try {
      return work();
    } catch (error) {
      if (!this.#of.isFull(error) || !this.relieve()) throw error;
      return work();
    }
  }

  /** A write that must work on a full disk. */
  writeAlways<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (this.#reserve === undefined || !this.#of.isFull(error)) throw error;
      this.spend();
      const result = work();
      this.refill();
      return result;
    }
  }

  /** Whether the reserve is incomplete, and ordinary writes are refused. */
  get short(): boolean {
    // `fits` is cheap, so the first call after space was freed succeeds.
    if (
      this.#short &&
      ((this.#trustsFits && this.#reserve!.fits) || performance.now() >= this.#notBefore)
    ) {
      this.refill();
    }
    return this.#short;
  }

  /** @throws the error of ordinary writes while the reserve is incomplete */
  require(): void {
    if (this.short) throw this.#of.full();
  }

  /**
   * On a full disk: moves the log into the database, which needs no more space than the log had.
   */
  relieve(): boolean {
    if (this.#reserve === undefined || this.#of.logBytes() < LEAST_LOG_BYTES) return false;
    if (performance.now() < this.#notBefore) return false;
    // Pages that the database already contains need no new space.
    if (!this.#short && this.#of.emptyLog()) return true;
    this.#reserve.release();
    const emptied = this.#of.emptyLog();
    this.refill();
    if (!emptied) this.#notBefore = performance.now() + REFILL_MS;
    return emptied && !this.#short;
  }

  /** Releases the reserve for a write that must succeed. */
  spend(): void {
    if (this.#reserve === undefined) return;
    this.#reserve.release();
    this.#short = true;
    this.#of.emptyLog();
  }

  /** Reserves the space again if possible. */
  refill(): void {
    if (this.#reserve === undefined) return;
    const { fits } = this.#reserve;
    let made = false;
    try {
      made = this.#reserve.make();
    } catch {
      // No descriptors, or a failing disk: the write before was committed, and the next refill
      // tries again.
    }
    this.#short = !made;
    // Under a quota the disk seems to have space that this user does not have.
    this.#trustsFits = made || !fits;
    if (this.#short) this.#notBefore = performance.now() + REFILL_MS;
  }
}

function randomBytes(bytes: number): Uint8Array {
  const filled = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65536) {
    crypto.getRandomValues(filled.subarray(at, Math.min(bytes, at + 65536)));
  }
  return filled;
}

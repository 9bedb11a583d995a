/**
 * Space on a disk that is kept for when it is full. The file holds it; released, there is room for what must always be
 * possible: to move a write-ahead log into its database, to cancel, end and delete runs. Made of random bytes: a file
 * system may keep zeros, or a hole, without any space.
 */
import { disk } from "./host_resources.ts";
import { messageOf } from "../base/errors.ts";

/** Of a small file system. */
const SHARE = 1 / 16;
const LEAST_BYTES = 256 << 10;
const CHUNK_BYTES = 1 << 20;

/** @param most where the file system is large enough */
export function reserveBytes(directory: string, most: number): number {
  const { total } = disk(directory);
  // Where the runtime may not ask, the disk is taken for a large one.
  return total === 0 ? most : Math.min(most, Math.max(LEAST_BYTES, Math.floor(total * SHARE)));
}

export class Reserve {
  readonly #path: string;
  readonly bytes: number;

  constructor(path: string, bytes: number) {
    this.#path = path;
    this.bytes = bytes;
  }

  /** Whether the space is held. */
  get whole(): boolean {
    try {
      const { size, blocks } = Deno.lstatSync(this.#path);
      return size === this.bytes && (blocks === null || blocks * 512 >= this.bytes / 2);
    } catch {
      return false;
    }
  }

  /** Whether the disk has room for it; false where that may not be asked. */
  get fits(): boolean {
    return disk(this.#path.slice(0, this.#path.lastIndexOf("/"))).available >= this.bytes;
  }

  /** Takes the space, all of it or nothing. @returns whether it is held */
  make(): boolean {
    if (this.whole) return true;
    try {
      this.release();
      const file = Deno.openSync(this.#path, { write: true, createNew: true, mode: 0o600 });
      try {
        const chunk = noise(Math.min(this.bytes, CHUNK_BYTES));
        for (let left = this.bytes; left > 0;) left -= file.writeSync(chunk.subarray(0, Math.min(left, chunk.length)));
      } finally {
        file.close();
      }
      return true;
    } catch (error) {
      this.release();
      if (/no space|quota/i.test(messageOf(error))) return false;
      throw error;
    }
  }

  /** Gives the space back to the disk. */
  release(): void {
    try {
      Deno.removeSync(this.#path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** How often the space is tried to be had again. */
const REFILL_MS = 1000;
/** A shorter log gives no room worth having. */
const LEAST_LOG_BYTES = 64 << 10;

/** The database beside a reserve. */
export interface Reserved {
  isFull: (error: unknown) => boolean;
  /** What ordinary writes fail with while the reserve is not whole. */
  full: () => Error;
  logBytes: () => number;
  /** Moves the log into the database. @returns whether the log is empty */
  emptyLog: () => boolean;
}

/** What a database's writes have to do with its reserve. */
export class WithReserve {
  readonly #reserve: Reserve | undefined;
  readonly #of: Reserved;
  /** The reserve is not whole. */
  #short = false;
  /** On a monotonic clock: what did not help is not tried again before this time. */
  #notBefore = -Infinity;

  constructor(reserve: Reserve | undefined, of: Reserved) {
    this.#reserve = reserve;
    this.#of = of;
  }

  /** When the database has been opened. */
  begin(): void {
    if (this.#reserve === undefined || this.#reserve.make()) return;
    this.#short = true;
    this.relieve();
  }

  /** An ordinary write: it may not use the reserve, but what can be freed with its help. */
  write<T>(work: () => T): T {
    this.require();
    try {
      return work();
    } catch (error) {
      if (!this.#of.isFull(error) || !this.relieve()) throw error;
      return work();
    }
  }

  /** A write that must be possible on a full disk. */
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

  /** Whether the reserve is not whole, and ordinary writes are refused. */
  get short(): boolean {
    // Asking is cheap where the runtime may: the first call after there is room again succeeds.
    if (this.#short && (this.#reserve!.fits || performance.now() >= this.#notBefore)) this.refill();
    return this.#short;
  }

  /** @throws what ordinary writes fail with while the reserve is not whole */
  require(): void {
    if (this.short) throw this.#of.full();
  }

  /** On a full disk: the log moves into the database, which needs no more room than it had itself. */
  relieve(): boolean {
    if (this.#reserve === undefined || this.#of.logBytes() < LEAST_LOG_BYTES) return false;
    if (performance.now() < this.#notBefore) return false;
    // Pages that the database has already need no room in it.
    if (!this.#short && this.#of.emptyLog()) return true;
    this.#reserve.release();
    const emptied = this.#of.emptyLog();
    this.refill();
    if (!emptied) this.#notBefore = performance.now() + REFILL_MS;
    return emptied && !this.#short;
  }

  /** Gives the reserve to what has to be written now. */
  spend(): void {
    if (this.#reserve === undefined) return;
    this.#reserve.release();
    this.#short = true;
    this.#of.emptyLog();
  }

  /** Takes the space again where there is any. */
  refill(): void {
    if (this.#reserve === undefined) return;
    this.#short = !this.#reserve.make();
    if (this.#short) this.#notBefore = performance.now() + REFILL_MS;
  }
}

function noise(bytes: number): Uint8Array {
  const noise = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65536) crypto.getRandomValues(noise.subarray(at, Math.min(bytes, at + 65536)));
  return noise;
}

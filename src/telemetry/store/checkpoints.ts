/**
 * Keeps the write-ahead log short. A checkpoint syncs the disk, so it runs in a worker thread with a connection of its
 * own: first PASSIVE, again until little is left (the daemon goes on writing meanwhile), then TRUNCATE (the rest, holding
 * the write lock for that moment). While no thread can be had (no descriptor is left, say), checkpoints run inline.
 */
import type { DatabaseSync } from "node:sqlite";
import { messageOf } from "../../base/errors.ts";
import { fileBytes } from "../../os/files.ts";

/** How long a write waits for a checkpoint, or for another program's write. */
export const BUSY_TIMEOUT_MS = 5000;
/** The log is moved into the database from BEGIN of this on; at the whole of it commits wait until that is done. */
export const WAL_LIMIT_BYTES = 16 * 1024 * 1024;
const BEGIN = 0.75;
/** The log's size is read when it may have grown by so much. */
const CHECK_EVERY_BYTES = 512 * 1024;
/** Of the limit: a log of this size is logged. */
const TELL_FACTOR = 16;
/** How long after a thread that could not be had another is tried: doubled each time, up to the longest. */
const RETRY_MS = { first: 5000, longest: 600_000 } as const;

export interface CheckpointOptions {
  /** "inline" never starts a thread. */
  mode?: "worker" | "inline";
  limitBytes?: number;
  warn?: (message: string) => void;
  /** A checkpoint in the thread found no room on the disk. */
  onFull?: () => void;
}

/** Runs inside the thread; made into a module of its own by its text, so that every form of the program has it. */
async function checkpointWorker(): Promise<void> {
  const { DatabaseSync } = await import("node:sqlite");
  // deno-lint-ignore no-explicit-any
  const scope = globalThis as any;
  let db: DatabaseSync | undefined;
  scope.onmessage = (event: MessageEvent<{ path: string }>) => {
    try {
      if (db === undefined) {
        db = new DatabaseSync(event.data.path);
        // Short: while it waits for readers it holds the write lock.
        db.exec("PRAGMA busy_timeout = 100; PRAGMA synchronous = NORMAL");
      }
      // Passes without a lock, until little is left to do with it held.
      const passive = db.prepare("PRAGMA wal_checkpoint(PASSIVE)");
      for (let pass = 0, before = 0; pass < 4; pass++) {
        const { log } = passive.get() as { log: number };
        if (log - before < 100) break;
        before = log;
      }
      const { busy } = db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
      scope.postMessage({ busy });
    } catch (error) {
      scope.postMessage({ error: String(error) });
    }
  };
  scope.postMessage({ ready: true });
}

export class Checkpoints {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #limit: number;
  readonly #warn: (message: string) => void;
  readonly #onFull: (() => void) | undefined;
  /** On a monotonic clock: before this time checkpoints run inline. */
  #threadAt: number;
  #retryMs: number = RETRY_MS.first;
  #worker: Worker | undefined;
  #workerUrl: string | undefined;
  #ready = false;
  #running = false;
  #unseen = 0;
  /** Size at which to act. After a checkpoint that readers kept from finishing it is larger by as much again. */
  #next: number;
  /** Size at which commits wait for the checkpoint that is running. */
  #full = 0;
  /** Size at which to say that a reader keeps the log from being emptied. */
  #tellAt: number;
  #closed = false;
  /** So often. */
  #emptied = 0;
  /** Who waits for the checkpoint that is running. */
  #waiting: (() => void)[] = [];

  constructor(db: DatabaseSync, path: string, options: CheckpointOptions = {}) {
    this.#db = db;
    this.#path = path;
    this.#limit = options.limitBytes ?? WAL_LIMIT_BYTES;
    this.#next = this.#limit * BEGIN;
    this.#tellAt = TELL_FACTOR * this.#limit;
    this.#warn = options.warn ?? (() => {});
    this.#onFull = options.onFull;
    this.#threadAt = options.mode === "inline" ? Infinity : -Infinity;
  }

  /**
   * Called after each commit. The file's size decides: how much a commit writes cannot be told from its rows.
   * @param bytes at most what it wrote
   */
  wrote(bytes: number): void {
    this.#unseen += bytes;
    if (this.#unseen < Math.min(CHECK_EVERY_BYTES, this.#limit / 8)) return;
    this.#unseen = 0;
    const size = this.walBytes();
    if (size < this.#next) return;
    if (this.#inline()) this.#checkpointInline();
    else if (!this.#running) this.#start(size);
  }

  /** Undefined, or (the log is as large as it may be, and a checkpoint under way) resolves when that has ended. */
  caughtUp(): Promise<void> | undefined {
    if (!this.#running || this.walBytes() < this.#full) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Moves the log into the database at once, in this thread. @returns whether the log is empty */
  empty(): boolean {
    if (this.#running) return false;
    this.#checkpointInline(true);
    return this.walBytes() === 0;
  }

  /** Moves the log into the database in the thread; resolves when that was tried. */
  async run(): Promise<void> {
    const settled = () => new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#running) await settled();
    if (this.#closed || this.walBytes() === 0) return;
    if (this.#inline()) return this.#checkpointInline();
    if (!this.#running) this.#start(this.walBytes());
    if (this.#running) await settled();
  }

  /**
   * The same for all that is committed now. @returns whether it is in the database file, synced, and nobody reads a state
   * from before it
   */
  async all(): Promise<boolean> {
    if (this.#running) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const before = this.#emptied;
    await this.run();
    return this.walBytes() === 0 || this.#emptied > before;
  }

  #inline(): boolean {
    return performance.now() < this.#threadAt;
  }

  walBytes(): number {
    return fileBytes(`${this.#path}-wal`);
  }

  close(): void {
    this.#closed = true;
    this.#finished();
    this.#endThread();
  }

  #start(size: number): void {
    try {
      this.#worker ??= this.#spawn();
    } catch (error) {
      this.#fallBack(messageOf(error));
      return this.#checkpointInline();
    }
    this.#running = true;
    this.#next = size + this.#limit * BEGIN;
    // A reader may have kept the last one from emptying it.
    this.#full = Math.max(this.#limit, size + this.#limit * (1 - BEGIN));
    if (this.#ready) this.#worker.postMessage({ path: this.#path });
  }

  #spawn(): Worker {
    requireDescriptors();
    this.#workerUrl = URL.createObjectURL(
      new Blob([`(${checkpointWorker.toString()})()`], { type: "text/javascript" }),
    );
    const worker = new Worker(this.#workerUrl, { type: "module", name: "checkpoints" });
    worker.onmessage = (event: MessageEvent<{ ready?: true; busy?: number; error?: string }>) => {
      if (event.data.ready) {
        this.#ready = true;
        if (this.#retryMs !== RETRY_MS.first) {
          this.#warn(`checkpoints of ${this.#path} run in a thread of their own again`);
        }
        this.#retryMs = RETRY_MS.first;
        if (this.#running) worker.postMessage({ path: this.#path });
        return;
      }
      this.#finished();
      if (event.data.error !== undefined) {
        if (this.#onFull !== undefined && /is full/.test(event.data.error)) return this.#onFull();
        this.#warn(`checkpoint of ${this.#path} failed: ${event.data.error}`);
      }
      if (event.data.busy === 0) {
        this.#emptied++;
        this.#next = this.#limit * BEGIN;
        this.#tellAt = TELL_FACTOR * this.#limit;
      } else this.#tellOfReader();
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fallBack(event.message);
    };
    return worker;
  }

  /** Nothing in mosaic reads for longer than a call takes: then somebody else holds the database open for reading. */
  #tellOfReader(): void {
    const size = this.walBytes();
    if (size < this.#tellAt) return;
    this.#tellAt = 2 * size;
    this.#warn(
      `${this.#path}-wal has ${
        size >> 20
      } MiB and cannot be emptied: a program other than mosaic has held the database ` +
        "open in a read transaction for long. The log shrinks when that ends.",
    );
  }

  #fallBack(reason: string): void {
    if (this.#closed) return;
    if (this.#retryMs === RETRY_MS.first) {
      this.#warn(`no checkpoint thread (${reason}): for now checkpoints run in the daemon's own thread`);
    }
    this.#threadAt = performance.now() + this.#retryMs;
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS.longest);
    this.#finished();
    this.#endThread();
  }

  #endThread(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#ready = false;
    if (this.#workerUrl !== undefined) URL.revokeObjectURL(this.#workerUrl);
    this.#workerUrl = undefined;
  }

  #finished(): void {
    this.#running = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** @param full on a disk known to be full, which is no news */
  #checkpointInline(full = false): void {
    try {
      // Waiting for other programs' readers would stop the daemon.
      this.#db.exec("PRAGMA busy_timeout = 0");
      const { busy } = this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
      this.#next = busy === 0 ? this.#limit * BEGIN : this.walBytes() + this.#limit * BEGIN;
      if (busy === 0) this.#emptied++;
      else this.#tellOfReader();
    } catch (error) {
      if (!full) this.#warn(`checkpoint of ${this.#path} failed: ${messageOf(error)}`);
      this.#next = this.walBytes() + this.#limit * BEGIN;
    } finally {
      this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }
}

/** A thread that finds no file descriptor left ends the whole process: check before. */
function requireDescriptors(): void {
  const held: Deno.FsFile[] = [];
  try {
    for (let i = 0; i < 24; i++) held.push(Deno.openSync("/dev/null"));
  } finally {
    for (const file of held) file.close();
  }
}

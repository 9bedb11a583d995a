/**
 * Keeps the write-ahead log short. A checkpoint syncs the disk, so it runs in a worker thread with
 * its own connection: first PASSIVE, repeated until little is left (the daemon continues to write),
 * then TRUNCATE (the rest, holding the write lock for that moment). If no thread can be started
 * (for example without a free descriptor), checkpoints run inline.
 *
 * The thread is one of (`Thread`):
 *
 * | State | Moves to | When |
 * |---|---|---|
 * | `none` | `starting` | the log has grown to its size, and the wait after a failure is over; until then: inline |
 * | `starting` | `ready` | its first message; a checkpoint that was asked for meanwhile is sent to it |
 * | `starting`, `ready` | `none` | it fails: the wait doubles |
 * | any | `closed` | `close` |
 *
 * Beside it, at most one checkpoint is `Running` in the thread; whoever waits for its end is in it.
 */
import type { DatabaseSync } from "node:sqlite";
import { messageOf } from "../../base/errors.ts";
import { fileBytes } from "../../os/files/files.ts";

/** How long a write waits for a checkpoint, or for another program's write. */
export const BUSY_TIMEOUT_MS = 5000;
/**
 * At BEGIN times this size a checkpoint begins; at the whole size commits wait until it has ended.
 */
export const WAL_LIMIT_BYTES = 16 * 1024 * 1024;
const BEGIN = 0.75;
/** The log's size is read when it may have grown by this much. */
const CHECK_EVERY_BYTES = 512 * 1024;
/** A log of this many times the limit is reported in the daemon's log. */
const REPORT_FACTOR = 16;
/** Wait before another try to start a thread: doubled each time, up to the longest. */
const RETRY_MS = { first: 5000, longest: 600_000 } as const;

export interface CheckpointOptions {
  /** "inline" never starts a thread. */
  mode?: "worker" | "inline";
  limitBytes?: number;
  warn?: (message: string) => void;
  /** A checkpoint in the thread found the disk full. */
  onFull?: () => void;
}

/**
 * Runs inside the thread. Its source text becomes a module of its own, so that it works in every
 * form of the program.
 */
async function checkpointWorker(): Promise<void> {
  const { DatabaseSync } = await import("node:sqlite");
  // deno-lint-ignore no-explicit-any
  const scope = globalThis as any;
  const opened = (path: string) => {
    const db = new DatabaseSync(path);
    // Short: while it waits for readers it holds the write lock.
    db.exec("PRAGMA busy_timeout = 100; PRAGMA synchronous = NORMAL");
    // Prepared once: a statement is freed when its object is collected, and this thread uses so
    // little memory that it never collects.
    return {
      // Without this reference it would be collected, and so closed.
      db,
      passive: db.prepare("PRAGMA wal_checkpoint(PASSIVE)"),
      truncate: db.prepare("PRAGMA wal_checkpoint(TRUNCATE)"),
    };
  };
  let statements: ReturnType<typeof opened> | undefined;
  scope.onmessage = (event: MessageEvent<{ path: string }>) => {
    try {
      const { passive, truncate } = statements ??= opened(event.data.path);
      // Passes without a lock, until little is left to do with it.
      for (let pass = 0, before = 0; pass < 4; pass++) {
        const { log } = passive.get() as { log: number };
        if (log - before < 100) break;
        before = log;
      }
      const { busy } = truncate.get() as { busy: number };
      scope.postMessage({ busy });
    } catch (error) {
      scope.postMessage({ error: String(error) });
    }
  };
  scope.postMessage({ ready: true });
}

type Thread =
  /** From this monotonic time on the next checkpoint starts one; before, checkpoints run inline. */
  | { readonly t: "none"; readonly from: number }
  | { readonly t: "starting"; readonly worker: Worker; readonly url: string }
  | { readonly t: "ready"; readonly worker: Worker; readonly url: string }
  | { readonly t: "closed" };

/** A checkpoint that the thread makes, or gets when it is ready. */
interface Running {
  /** Size at which commits wait for its end. */
  readonly fullAt: number;
  readonly waiting: (() => void)[];
}

export class Checkpoints {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #limit: number;
  readonly #warn: (message: string) => void;
  readonly #onFull: (() => void) | undefined;
  #thread: Thread;
  #running: Running | undefined;
  #retryMs: number = RETRY_MS.first;
  /** Bytes that may have been written since the log's size was read. */
  #unseen = 0;
  /**
   * Size at which a checkpoint begins. If readers kept the last one from finishing, it is larger by
   * as much again.
   */
  #next: number;
  /** Size at which to report that a reader keeps the log from being emptied. */
  #reportAt: number;
  /** How often the log was emptied. */
  #emptied = 0;

  constructor(db: DatabaseSync, path: string, options: CheckpointOptions = {}) {
    this.#db = db;
    this.#path = path;
    this.#limit = options.limitBytes ?? WAL_LIMIT_BYTES;
    this.#next = this.#limit * BEGIN;
    this.#reportAt = REPORT_FACTOR * this.#limit;
    this.#warn = options.warn ?? (() => {});
    this.#onFull = options.onFull;
    this.#thread = { t: "none", from: options.mode === "inline" ? Infinity : -Infinity };
  }

  /**
   * Called after each commit. The file's size decides, because the rows do not show how much a
   * commit writes.
   * @param bytes the most that it may have written
   */
  wrote(bytes: number): void {
    this.#unseen += bytes;
    if (this.#unseen < Math.min(CHECK_EVERY_BYTES, this.#limit / 8)) return;
    this.#unseen = 0;
    const size = this.walBytes();
    if (size < this.#next) return;
    if (this.#inline()) this.#checkpointInline();
    else if (this.#running === undefined) this.#start(size);
  }

  /**
   * If the log has its full size and a checkpoint is running, resolves when that has ended;
   * otherwise undefined.
   */
  caughtUp(): Promise<void> | undefined {
    if (this.#running === undefined || this.walBytes() < this.#running.fullAt) return undefined;
    return endOf(this.#running);
  }

  /** Moves the log into the database now, in this thread. @returns whether the log is empty */
  empty(): boolean {
    if (this.#running !== undefined) return false;
    this.#checkpointInline(true);
    return this.walBytes() === 0;
  }

  /** Moves the log into the database in the thread; resolves after the try. */
  async run(): Promise<void> {
    if (this.#running !== undefined) await endOf(this.#running);
    if (this.#thread.t === "closed" || this.walBytes() === 0) return;
    if (this.#inline()) return this.#checkpointInline();
    const running = this.#running ?? this.#start(this.walBytes());
    if (running !== undefined) await endOf(running);
  }

  /**
   * The same for everything committed so far. @returns whether it is in the database file, synced,
   * and no reader uses an earlier state
   */
  async all(): Promise<boolean> {
    if (this.#running !== undefined) await endOf(this.#running);
    const before = this.#emptied;
    await this.run();
    return this.walBytes() === 0 || this.#emptied > before;
  }

  #inline(): boolean {
    return this.#thread.t === "none" && performance.now() < this.#thread.from;
  }

  walBytes(): number {
    return fileBytes(`${this.#path}-wal`);
  }

  close(): void {
    this.#endThread({ t: "closed" });
  }

  /** @returns undefined if it was made inline, or this is closed */
  #start(size: number): Running | undefined {
    if (this.#thread.t === "none") {
      try {
        this.#thread = this.#spawn();
      } catch (error) {
        this.#fallBack(messageOf(error));
        this.#checkpointInline();
        return undefined;
      }
    }
    if (this.#thread.t === "closed") return undefined;
    this.#next = size + this.#limit * BEGIN;
    // A reader may have kept the last checkpoint from emptying it.
    this.#running = {
      fullAt: Math.max(this.#limit, size + this.#limit * (1 - BEGIN)),
      waiting: [],
    };
    if (this.#thread.t === "ready") this.#thread.worker.postMessage({ path: this.#path });
    return this.#running;
  }

  #spawn(): Thread {
    requireDescriptors();
    const url = URL.createObjectURL(
      new Blob([`(${checkpointWorker.toString()})()`], { type: "text/javascript" }),
    );
    const worker = new Worker(url, { type: "module", name: "checkpoints" });
    worker.onmessage = (event: MessageEvent<{ ready?: true; busy?: number; error?: string }>) => {
      // Sent before it was ended.
      if (!("worker" in this.#thread) || this.#thread.worker !== worker) return;
      if (event.data.ready) this.#isReady(worker, url);
      else this.#ended(event.data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fallBack(event.message);
    };
    return { t: "starting", worker, url };
  }

  #isReady(worker: Worker, url: string): void {
    this.#thread = { t: "ready", worker, url };
    if (this.#retryMs !== RETRY_MS.first) {
      this.#warn(`checkpoints of ${this.#path} run in a thread of their own again`);
    }
    this.#retryMs = RETRY_MS.first;
    if (this.#running !== undefined) worker.postMessage({ path: this.#path });
  }

  #ended({ busy, error }: { busy?: number; error?: string }): void {
    this.#finished();
    if (error !== undefined) {
      if (this.#onFull !== undefined && /is full/.test(error)) return this.#onFull();
      this.#warn(`checkpoint of ${this.#path} failed: ${error}`);
    }
    if (busy === 0) {
      this.#emptied++;
      this.#next = this.#limit * BEGIN;
      this.#reportAt = REPORT_FACTOR * this.#limit;
    } else this.#reportReader();
  }

  /**
   * No read in mosaic lasts longer than a call, so another program has the database open for
   * reading.
   */
  #reportReader(): void {
    const size = this.walBytes();
    if (size < this.#reportAt) return;
    this.#reportAt = 2 * size;
    this.#warn(
      `${this.#path}-wal has ${
        size >> 20
      } MiB and cannot be emptied: a program other than mosaic has held the database ` +
        "open in a read transaction for long. The log shrinks when that ends.",
    );
  }

  #fallBack(reason: string): void {
    if (this.#thread.t === "closed") return;
    if (this.#retryMs === RETRY_MS.first) {
      this.#warn(
        `no checkpoint thread (${reason}): for now checkpoints run in the daemon's own thread`,
      );
    }
    this.#endThread({ t: "none", from: performance.now() + this.#retryMs });
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS.longest);
  }

  #endThread(next: Thread): void {
    const thread = this.#thread;
    this.#thread = next;
    this.#finished();
    if (!("worker" in thread)) return;
    thread.worker.terminate();
    URL.revokeObjectURL(thread.url);
  }

  #finished(): void {
    const running = this.#running;
    this.#running = undefined;
    for (const resolve of running?.waiting ?? []) resolve();
  }

  /** @param full the disk is known to be full, so a failure is not reported */
  #checkpointInline(full = false): void {
    try {
      // Waiting for other programs' readers would block the daemon.
      this.#db.exec("PRAGMA busy_timeout = 0");
      const { busy } = this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as {
        busy: number;
      };
      this.#next = busy === 0 ? this.#limit * BEGIN : this.walBytes() + this.#limit * BEGIN;
      if (busy === 0) this.#emptied++;
      else this.#reportReader();
    } catch (error) {
      if (!full) this.#warn(`checkpoint of ${this.#path} failed: ${messageOf(error)}`);
      this.#next = this.walBytes() + this.#limit * BEGIN;
    } finally {
      this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    }
  }
}

function endOf(running: Running): Promise<void> {
  return new Promise((resolve) => running.waiting.push(resolve));
}

/** A thread without a free file descriptor ends the whole process: check before. */
function requireDescriptors(): void {
  const held: Deno.FsFile[] = [];
  try {
    for (let i = 0; i < 24; i++) held.push(Deno.openSync("/dev/null"));
  } finally {
    for (const file of held) file.close();
  }
}

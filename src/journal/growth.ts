/** Reports when the files of a directory may have grown. */
import { watchDirectory } from "../os/files/untrusted.ts";

/**
 * `alone`: if the kernel gives no notifications (their number is limited). `besides`: a safety net
 * beside notifications.
 */
const POLL_MS = { alone: 50, besides: 1000 };

/**
 * Calls `changed` after changes below `directory`, and at intervals without any. It waits for the
 * next notification only when the last one was handled. Still, notifications of a busy worker are
 * expensive: the runtime's own thread takes every one and resolves its path, a tenth of the
 * processor time of a fast worker's proxy. So a reader that notices the growth anyway disarms the
 * watch until it has caught up.
 */
export class GrowthWatch {
  readonly #directory: string;
  readonly #changed: () => void;
  readonly #pollMs: number;
  #watcher: Deno.FsWatcher | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** "idle": the kernel queues notifications, but nothing waits for one. */
  #mode: "armed" | "idle" | "disarmed" = "idle";

  /** @param pollMs interval of calls of `changed` without notifications */
  constructor(directory: string, changed: () => void, pollMs = POLL_MS.besides) {
    this.#directory = directory;
    this.#changed = changed;
    this.#pollMs = pollMs;
    this.#watch();
  }

  /**
   * Reports the next growth. Changes while it was disarmed are reported at once: the reader may
   * have missed the last of them.
   */
  arm(): void {
    if (this.#mode === "disarmed") {
      this.#mode = "idle";
      this.#watch();
      this.#changed();
    }
    if (this.#mode === "armed" || this.#watcher === undefined) return;
    this.#mode = "armed";
    const watcher = this.#watcher;
    watcher[Symbol.asyncIterator]().next().then((result) => {
      if (this.#watcher !== watcher) return;
      this.#mode = "idle";
      if (result.done) this.#fallBack(watcher);
      this.#changed();
    }, () => this.#fallBack(watcher));
  }

  /** Stops reporting, except at intervals, until it is armed. */
  disarm(): void {
    if (this.#mode === "disarmed") return;
    this.#mode = "disarmed";
    this.#unwatch();
    this.#poll(this.#pollMs);
  }

  #watch(): void {
    try {
      this.#watcher = watchDirectory(this.#directory);
    } catch {
      // The poll replaces it.
    }
    this.#poll(this.#watcher === undefined ? POLL_MS.alone : this.#pollMs);
  }

  #poll(ms: number): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(this.#changed, ms);
  }

  #fallBack(watcher: Deno.FsWatcher): void {
    if (this.#watcher !== watcher) return;
    this.#watcher = undefined;
    this.#mode = "idle";
    this.#poll(POLL_MS.alone);
  }

  #unwatch(): void {
    const watcher = this.#watcher;
    this.#watcher = undefined;
    try {
      watcher?.close();
    } catch {
      // Closed by itself.
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#unwatch();
  }
}

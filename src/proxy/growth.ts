/** Tells when the files of a directory may have grown. */

/** Where the kernel's notifications cannot be had (their number is limited), and as a safety net where they can. */
const POLL_MS = { alone: 50, besides: 1000 };

/**
 * Calls `changed` after changes below `directory`, and now and then without any.
 *
 * The next notification is only waited for when the last one was dealt with. That alone does not make those of a worker
 * that writes all the time free: the runtime's own thread takes every one and resolves its path, which is a tenth of what a
 * fast worker's proxy takes in all. So a reader that sees the growth anyway disarms the watch until it has caught up.
 */
export class GrowthWatch {
  readonly #directory: string;
  readonly #changed: () => void;
  readonly #pollMs: number;
  #watcher: Deno.FsWatcher | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** "idle": the kernel keeps notifications, and none is waited for. */
  #mode: "armed" | "idle" | "disarmed" = "idle";

  /** @param pollMs how often `changed` is called besides notifications */
  constructor(directory: string, changed: () => void, pollMs = POLL_MS.besides) {
    this.#directory = directory;
    this.#changed = changed;
    this.#pollMs = pollMs;
    this.#watch();
  }

  /** Reports the next growth. What came while it was disarmed is reported at once: nobody may have seen the last of it. */
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

  /** Reports nothing, but for now and then, until it is armed. */
  disarm(): void {
    if (this.#mode === "disarmed") return;
    this.#mode = "disarmed";
    this.#unwatch();
    this.#poll(this.#pollMs);
  }

  #watch(): void {
    try {
      this.#watcher = Deno.watchFs(this.#directory, { recursive: false });
    } catch {
      // The poll does it.
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

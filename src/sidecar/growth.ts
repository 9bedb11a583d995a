/** Tells when the files of a directory may have grown. */

/** Where the kernel's notifications cannot be had (their number is limited), and as a safety net where they can. */
const POLL_MS = { alone: 50, besides: 1000 };

/**
 * Calls `changed` after changes below `directory`, and now and then without any.
 *
 * The next notification is only asked for when the last one was dealt with, so that a worker that writes all the time
 * costs nothing here.
 */
export class GrowthWatch {
  readonly #changed: () => void;
  #watcher: Deno.FsWatcher | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #asked = false;

  constructor(directory: string, changed: () => void) {
    this.#changed = changed;
    try {
      this.#watcher = Deno.watchFs(directory, { recursive: false });
    } catch {
      // The poll does it.
    }
    this.#timer = setInterval(changed, this.#watcher === undefined ? POLL_MS.alone : POLL_MS.besides);
  }

  /** To be called before waiting. */
  ask(): void {
    if (this.#asked || this.#watcher === undefined) return;
    this.#asked = true;
    const watcher = this.#watcher;
    watcher[Symbol.asyncIterator]().next().then((result) => {
      this.#asked = false;
      if (result.done) this.#fallBack(watcher);
      this.#changed();
    }, () => this.#fallBack(watcher));
  }

  #fallBack(watcher: Deno.FsWatcher): void {
    if (this.#watcher !== watcher) return;
    this.#watcher = undefined;
    clearInterval(this.#timer);
    this.#timer = setInterval(this.#changed, POLL_MS.alone);
  }

  close(): void {
    const watcher = this.#watcher;
    this.#watcher = undefined;
    clearInterval(this.#timer);
    try {
      watcher?.close();
    } catch {
      // Closed by itself.
    }
  }
}

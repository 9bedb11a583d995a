/**
 * Fair turns on the one thread. Each run has at most one job waiting, and jobs are taken in order of arrival, so runs
 * take turns however much any of them has to say; after a slice of time everything else (unary calls, timers,
 * heartbeats) goes first.
 */
const SLICE_MS = 4;

export class Turns {
  #waiting: (() => void)[] = [];
  #scheduled = false;

  /** Runs the synchronous job when its turn comes; gives what it returns or throws. */
  run<T>(job: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(job());
        } catch (error) {
          reject(error);
        }
      });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#slice());
  }

  #slice(): void {
    this.#scheduled = false;
    const jobs = this.#waiting;
    const end = performance.now() + SLICE_MS;
    let done = 0;
    do jobs[done++]!(); while (done < jobs.length && performance.now() < end);
    this.#waiting = jobs.slice(done);
    if (this.#waiting.length > 0) this.#schedule();
  }
}

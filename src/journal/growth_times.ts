/**
 * When a journal grew: so lines that are delivered late (the daemon was away, a backlog) get the
 * time at which they were written, not that of their arrival. Bounded: of many samples, every
 * second one of the older half is kept.
 */

/** More often is no more exact: a line is written up to this long before its growth is noticed. */
const LEAST_MS = 100;
/** A line that is read sooner gets the time of its arrival, as from a worker that tells none. */
const LATE_MS = 1000;
const MAX_SAMPLES = 4096;

export class GrowthTimes {
  /** Ends of the journal, ascending, and when each was seen first (Unix milliseconds). */
  #samples: { end: number; at: number }[] = [];
  /** The newest look, which may have seen no growth. */
  #lookedAt = 0;

  /** @param end the journal's end @param at when it was written, at the latest */
  add(end: number, at: number): void {
    this.#lookedAt = at;
    const last = this.#samples.at(-1);
    if (last !== undefined && end <= last.end) return;
    this.#samples.push({ end, at });
    if (this.#samples.length <= MAX_SAMPLES) return;
    const half = MAX_SAMPLES / 2;
    // The later one of two: no line gets a time before it was written.
    this.#samples = this.#samples.filter((_, i) => i >= half || i % 2 === 1);
  }

  /** Whether a look now would be of use: the caller's costs a system call. */
  isDue(now: number): boolean {
    return now - this.#lookedAt >= LEAST_MS;
  }

  /**
   * Nanoseconds (Unix) at which the byte before `position` was written, at the latest.
   * @returns "": not known, or so recent that the time of arrival is as good
   */
  timeAt(position: number, now: number): string {
    let [low, high] = [0, this.#samples.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#samples[middle]!.end < position) low = middle + 1;
      else high = middle;
    }
    const at = this.#samples[low]?.at;
    return at === undefined || now - at < LATE_MS ? "" : `${Math.floor(at)}000000`;
  }

  /** What is before it was delivered. */
  forget(position: number): void {
    const first = this.#samples.findIndex(({ end }) => end > position);
    if (first > 0) this.#samples.splice(0, first);
  }
}

const NEWLINE = 10;

/** Limits the lines per second that a reader gets. */
export class LineRate {
  readonly #perSecond: number;
  #second = -1;
  #used = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /**
   * @returns how many of `bytes` to show now, and the number of lines to suppress. @param now in
   * seconds
   */
  admit(bytes: Uint8Array, now: number): { show: number; suppressedLines: number } {
    const second = Math.floor(now);
    if (second !== this.#second) {
      this.#second = second;
      this.#used = 0;
    }
    let show = 0;
    let suppressedLines = 0;
    for (let i = 0; i < bytes.length; i++) {
      if (bytes[i] !== NEWLINE) continue;
      if (this.#used < this.#perSecond) {
        this.#used++;
        show = i + 1;
      } else suppressedLines++;
    }
    // The part after the last newline belongs to a line that is shown.
    if (suppressedLines === 0) show = bytes.length;
    return { show, suppressedLines };
  }
}

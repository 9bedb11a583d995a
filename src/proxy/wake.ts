/** Something to wait on that many may set off: what happens between two waits is not missed. */
export class Wake {
  #set = false;
  #resolve: (() => void) | undefined;

  notify(): void {
    this.#set = true;
    this.#resolve?.();
  }

  /** Resolves at the next notification, at once if there was one since the last wait, or after `ms`. */
  async wait(ms: number): Promise<void> {
    if (!this.#set) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#resolve = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#resolve = undefined;
    this.#set = false;
  }
}

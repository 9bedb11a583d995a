/**
 * Finishes concurrent pieces of work in the order in which they were added. When one fails, those
 * after it are not finished.
 */
export class InOrder {
  readonly #onFailure: (failure: Error) => void;
  /** Never rejects. */
  #last: Promise<void> = Promise.resolve();
  #bytes = 0;
  #failure: Error | undefined;

  constructor(onFailure: (failure: Error) => void) {
    this.#onFailure = onFailure;
  }

  /** Sum of the bytes of unfinished pieces. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @param finish called when all pieces before this one are finished */
  add(bytes: number, finish: () => Promise<void>): void {
    this.#bytes += bytes;
    this.#last = this.#last.then(async () => {
      if (this.#failure !== undefined) return;
      await finish();
      this.#bytes -= bytes;
    }).catch((error) => {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      this.#onFailure(this.#failure);
    });
  }

  /** @throws the error of a piece that has failed */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Waits until all pieces so far are finished. @throws the error of a piece that has failed */
  async finished(): Promise<void> {
    await this.#last;
    this.check();
  }
}

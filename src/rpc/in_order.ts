/**
 * Pieces of work that are under way together and finished in the order in which they came. The first one that fails is the
 * last one: those behind it are not finished.
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

  /** Of the pieces that are not finished. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @param finish is called when all pieces before this one are finished */
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

  /** @throws why a piece has failed */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** All pieces so far are finished. @throws why they are not */
  async finished(): Promise<void> {
    await this.#last;
    this.check();
  }
}

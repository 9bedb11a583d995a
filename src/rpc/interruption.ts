/**
 * Waits that one event ends, such as a client that leaves, or a deadline. `Promise.race` with a promise that lives as long
 * as the stream would keep every result until the stream is over.
 */
export class Interruption {
  #error: Error | undefined;
  #reject: ((error: Error) => void) | undefined;

  /** Ends the present wait and all later ones; only the first call counts. */
  interrupt(error: Error): void {
    this.#error ??= error;
    this.#reject?.(this.#error);
  }

  /** @throws what was interrupted with */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
  }

  /** One wait at a time. @throws what interrupted it; else what the promise is rejected with */
  wait<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const over = () => this.#reject = undefined;
      promise.then((value) => {
        over();
        resolve(value);
      }, (error) => {
        over();
        reject(error);
      });
      if (this.#error !== undefined) reject(this.#error);
      else this.#reject = reject;
    });
  }
}

import type { MosaicError } from "../base/errors.ts";

/**
 * Waits that one event ends, such as a client that leaves, or a deadline. `Promise.race` with a promise that lives as long
 * as the stream would keep every result until the stream is over.
 */
export class Interruption {
  #error: MosaicError | undefined;
  #reject: ((error: MosaicError) => void) | undefined;

  /** Ends the current wait and all later ones; only the first call counts. */
  interrupt(error: MosaicError): void {
    this.#error ??= error;
    this.#reject?.(this.#error);
  }

  /** @throws MosaicError the error of the interruption */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
  }

  /** One wait at a time. @throws MosaicError the error of the interruption; else the promise's own */
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

/**
 * Ends waits for promises when an event happens, such as a client that leaves, or a deadline.
 * `Promise.race` with a promise that lives as long as the stream would retain every result until
 * the stream ends.
 */
export class Interruption {
  #error: Error | undefined;
  #reject: ((error: Error) => void) | undefined;

  /** Ends the current wait and all later ones; only the first call has an effect. */
  interrupt(error: Error): void {
    this.#error ??= error;
    this.#reject?.(this.#error);
  }

  /** @throws the error of `interrupt`, if it was called */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
  }

  /**
   * Waits for the promise; only one wait at a time. @throws the error of `interrupt`, or the
   * promise's own
   */
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

/** Handles events in the order of their arrival, one at a time. */
export class EventQueue<Event> {
  readonly #events: Event[] = [];
  readonly #closed = Promise.withResolvers<void>();
  #handle: ((event: Event) => void) | undefined;
  #handling = false;

  /** Handles the event now, or after the events that the running handler still has to handle. */
  put(event: Event): void {
    this.#events.push(event);
    this.#drain();
  }

  /** Handles nothing more; `run` ends. */
  close(): void {
    this.#handle = undefined;
    this.#closed.resolve();
  }

  /** Handles nothing more; `run` throws. */
  fail(error: unknown): void {
    this.#handle = undefined;
    this.#closed.reject(error);
  }

  /**
   * Passes events to `handle` until `close`, beginning with those already queued. @throws errors of
   * `handle`, or the error given to `fail`.
   */
  async run(handle: (event: Event) => void): Promise<void> {
    this.#handle = handle;
    this.#drain();
    await this.#closed.promise;
  }

  #drain(): void {
    if (this.#handling) return;
    this.#handling = true;
    try {
      while (this.#handle !== undefined && this.#events.length > 0) {
        this.#handle(this.#events.shift()!);
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#handling = false;
    }
  }
}

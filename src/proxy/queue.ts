/** Events in the order in which they came, one handled to its end before the next. */
export class EventQueue<Event> {
  readonly #events: Event[] = [];
  readonly #closed = Promise.withResolvers<void>();
  #handle: ((event: Event) => void) | undefined;
  #handling = false;

  /** Handles the event, or leaves it to the handler that is running: what that one puts comes after it. */
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

  /** Hands events to `handle` until `close`, those first that are there already. @throws what `handle` does, or `fail` was given. */
  async run(handle: (event: Event) => void): Promise<void> {
    this.#handle = handle;
    this.#drain();
    await this.#closed.promise;
  }

  #drain(): void {
    if (this.#handling) return;
    this.#handling = true;
    try {
      while (this.#handle !== undefined && this.#events.length > 0) this.#handle(this.#events.shift()!);
    } catch (error) {
      this.fail(error);
    } finally {
      this.#handling = false;
    }
  }
}

/** The body of a streamed answer. The runtime asks for more only as fast as the client reads. */
import type { MosaicError } from "../../base/errors.ts";
import { clientDisconnected, StalledError } from "../call/handlers.ts";

/**
 * Bytes that wait in the stream itself before it is full; the runtime and the socket hold some in
 * addition.
 */
const QUEUE_BYTES = 64 << 10;

export class AnswerBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #stallMs: number;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #open = true;
  /**
   * The client has left before the end. The runtime may find that, and cancel the stream, inside
   * `enqueue`.
   */
  #gone = false;
  /** Shared by all current writers. */
  #waiting: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  /**
   * @param onGone called if the client leaves before the end @param stallMs how long a client may
   * read nothing
   */
  constructor(onGone: () => void, stallMs: number) {
    this.#stallMs = stallMs;
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#controller = controller),
      pull: () => this.#notify(),
      cancel: () => {
        this.#open = false;
        this.#gone = true;
        onGone();
        this.#notify();
      },
    }, new ByteLengthQueuingStrategy({ highWaterMark: QUEUE_BYTES }));
  }

  /**
   * Undefined if there is space for more; otherwise resolves when there is. @throws MosaicError
   * `aborted` if the client has left, `unavailable` if it read nothing for too long
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    if (!this.#open) throw clientDisconnected();
    this.#controller.enqueue(bytes);
    if (this.#gone) throw clientDisconnected();
    return this.#controller.desiredSize! > 0 ? undefined : this.#waiting ??= this.#space();
  }

  /** Writes all of it in chunks, and ends. @throws MosaicError as `write` does */
  async writeAll(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    for await (const chunk of chunks) await this.write(chunk);
    await this.end();
  }

  /**
   * Resolves when the answer uses no more memory: the client has read everything, has left, or has
   * stalled. @param last sent before the end
   */
  async end(last?: Uint8Array): Promise<void> {
    if (!this.#open) return;
    try {
      if (last !== undefined) this.write(last)?.catch(() => {});
      while (this.#open && this.#controller.desiredSize! < QUEUE_BYTES) {
        await (this.#waiting ??= this.#space());
      }
      this.#open = false;
      if (!this.#gone) this.#controller.close();
    } catch (error) {
      this.reset(error);
    }
  }

  /** Drops what the client has not read, and its stream. */
  reset(error: unknown): void {
    if (!this.#open) return;
    this.#open = false;
    this.#controller.error(error);
  }

  async #space(): Promise<void> {
    let stalled: MosaicError | undefined;
    const timer = setTimeout(() => {
      stalled = new StalledError(this.#stallMs);
      this.#notify();
    }, this.#stallMs);
    await new Promise<void>((resolve) => this.#wake = resolve);
    clearTimeout(timer);
    this.#waiting = undefined;
    if (stalled !== undefined) throw stalled;
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

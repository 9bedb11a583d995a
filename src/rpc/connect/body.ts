/** The body of a streamed answer: bytes as fast as the client takes them. The runtime stops asking when it does not. */
import { MosaicError } from "../../base/errors.ts";
import { StalledError } from "../handlers.ts";

/** Bytes that wait in the stream itself before it is full; the runtime and the socket hold some besides. */
const ROOM_BYTES = 64 << 10;

export class AnswerBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #stallMs: number;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #open = true;
  /** The client has left before the end. A write finds out in the middle of `enqueue`: the runtime cancels the stream there. */
  #gone = false;
  /** Shared by all who write at one time. */
  #waiting: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  /**
   * @param onGone called when the client leaves before the end
   * @param stallMs how long a client may take nothing
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
    }, new ByteLengthQueuingStrategy({ highWaterMark: ROOM_BYTES }));
  }

  /**
   * Undefined where there is room for more; otherwise resolves when there is.
   * @throws MosaicError `aborted` when the client has gone, `unavailable` when it took nothing for too long
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    if (!this.#open) throw new MosaicError("aborted", "the client has gone");
    this.#controller.enqueue(bytes);
    if (this.#gone) throw new MosaicError("aborted", "the client has gone");
    return this.#controller.desiredSize! > 0 ? undefined : this.#waiting ??= this.#room();
  }

  /** Writes all of it in chunks, and ends. @throws MosaicError as `write` does */
  async writeAll(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    for await (const chunk of chunks) await this.write(chunk);
    await this.end();
  }

  /**
   * Resolves when the client has taken all, or left, or takes nothing any more: only then the answer holds no memory.
   *
   * @param last sent before the end
   */
  async end(last?: Uint8Array): Promise<void> {
    if (!this.#open) return;
    try {
      if (last !== undefined) this.write(last)?.catch(() => {});
      while (this.#open && this.#controller.desiredSize! < ROOM_BYTES) await (this.#waiting ??= this.#room());
      this.#open = false;
      if (!this.#gone) this.#controller.close();
    } catch (error) {
      this.reset(error);
    }
  }

  /** Drops what the client has not taken, and its stream. */
  reset(error: unknown): void {
    if (!this.#open) return;
    this.#open = false;
    this.#controller.error(error);
  }

  async #room(): Promise<void> {
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

/**
 * A call's messages for a slow consumer: messages that it has not requested stay with the sender.
 */
import type { Buffer } from "node:buffer";

/** The part of grpc-js's readable calls that is used here. */
interface ReadableCall {
  on(event: "data", listener: (bytes: Buffer) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  pause(): unknown;
  resume(): unknown;
  cancel(): void;
}

const HELD_MESSAGES = 64;
const HELD_BYTES = 1 << 20;

export class Inbound implements AsyncIterable<Buffer> {
  readonly #call: ReadableCall;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #paused = false;
  #ended = false;
  #error: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(call: ReadableCall) {
    this.#call = call;
    call.on("data", (bytes) => {
      this.#held.push(bytes);
      this.#heldBytes += bytes.length;
      if (this.#held.length >= HELD_MESSAGES || this.#heldBytes >= HELD_BYTES) {
        this.#paused = true;
        call.pause();
      }
      this.#notify();
    });
    call.on("end", () => {
      this.#ended = true;
      this.#notify();
    });
    // It comes before "end", which waits until the messages before the error are read.
    call.on("error", (error) => this.#error = error);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void> {
    try {
      for (;;) {
        const taken = this.#held;
        this.#held = [];
        this.#heldBytes = 0;
        yield* taken;
        if (this.#held.length > 0) continue;
        if (this.#paused) {
          this.#paused = false;
          this.#call.resume();
        }
        if (this.#ended) {
          if (this.#error !== undefined) throw this.#error;
          return;
        }
        await new Promise<void>((resolve) => this.#wake = resolve);
      }
    } finally {
      this.#call.cancel();
    }
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

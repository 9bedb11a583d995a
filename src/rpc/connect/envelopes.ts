/**
 * A client's stream of enveloped messages (a byte of flags, four bytes of length, the message),
 * read on demand into reused buffers: for each chunk, of 16 KiB at most, the runtime would allocate
 * a buffer of 64 KiB.
 */
import { boundReached } from "../../base/load_limits.ts";
import { MosaicError } from "../../base/errors.ts";
import { FRAME_BYTES } from "../../wire/message_frames.ts";
import { clientDisconnected, type Incoming } from "../call/handlers.ts";
import { Interruption } from "../call/interruption.ts";
import { BufferPool } from "./buffers.ts";

/** Each stream has a buffer of this size, and reads larger messages into one of the pool. */
const SMALL_BYTES = 16 << 10;
/**
 * First buffer of a message that announces more; it then grows to at most twice the received bytes,
 * so a header alone allocates little.
 */
const FIRST_LARGE_BYTES = 1 << 20;

const pool = new BufferPool();

export class EnvelopedIncoming<T> implements Incoming<T> {
  /** Undefined at the end of the stream. */
  #reader: ReadableStreamBYOBReader | undefined;
  readonly #most: () => number;
  readonly #decode: (bytes: Uint8Array) => T;
  readonly #interruption = new Interruption();
  /** Received bytes that were not taken yet are between `#from` and `#to`. */
  #small = new ArrayBuffer(SMALL_BYTES);
  #from = 0;
  #to = 0;
  /** Holds the large message that was taken last. */
  #large: ArrayBuffer | undefined;

  /**
   * @param most bytes of the next message
   * @param decode its result may contain views of the bytes, valid until the next `take`
   * @param signal aborted when the client has left or the server stops; it wakes a waiting `take`
   */
  constructor(
    body: ReadableStream<Uint8Array> | null,
    most: () => number,
    decode: (bytes: Uint8Array) => T,
    signal: AbortSignal,
  ) {
    this.#reader = body === null ? undefined : readerOf(body);
    this.#most = most;
    this.#decode = decode;
    const gone = () => this.interrupt(clientDisconnected());
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  }

  async take(): Promise<T[]> {
    this.#interruption.check();
    this.#release();
    for (;;) {
      const messages = this.#whole();
      if (messages.length > 0) return messages;
      const size = this.#size();
      if (size > SMALL_BYTES) return [this.#decode(await this.#readLarge(size))];
      new Uint8Array(this.#small).copyWithin(0, this.#from, this.#to);
      this.#to -= this.#from;
      this.#from = 0;
      const read = await this.#read(new Uint8Array(this.#small, this.#to));
      if (read === undefined) {
        if (this.#to > 0) throw this.#broken(cutOff());
        // The runtime has transferred the old one.
        this.#small = new ArrayBuffer(SMALL_BYTES);
        return [];
      }
      this.#small = read.buffer;
      this.#to += read.length;
    }
  }

  interrupt(error: Error): void {
    this.#interruption.interrupt(error);
  }

  /** Stops reading; no further message is decoded. */
  async close(): Promise<void> {
    this.#release();
    await this.#reader?.cancel().catch(() => {});
  }

  /** The complete messages. */
  #whole(): T[] {
    const messages: T[] = [];
    for (let size = this.#size(); size <= this.#to - this.#from; size = this.#size()) {
      const message = new Uint8Array(this.#small, this.#from + FRAME_BYTES, size - FRAME_BYTES);
      this.#from += size;
      messages.push(this.#decode(message));
    }
    return messages;
  }

  /**
   * Bytes of the next envelope, or of its header while that is incomplete. @throws MosaicError
   * `resource_exhausted`, `invalid_argument`
   */
  #size(): number {
    if (this.#to - this.#from < FRAME_BYTES) return FRAME_BYTES;
    const header = new DataView(this.#small, this.#from, FRAME_BYTES);
    const flags = header.getUint8(0);
    if (flags !== 0) {
      throw new MosaicError(
        "invalid_argument",
        `a message has the flags ${flags}: none may be compressed`,
      );
    }
    const length = header.getUint32(1);
    const most = this.#most();
    if (length <= most) return FRAME_BYTES + length;
    throw boundReached(
      "maxMessageBytes",
      most,
      `a message has ${length} bytes`,
      "Send less at once",
    );
  }

  async #readLarge(size: number): Promise<Uint8Array> {
    const begun = new Uint8Array(this.#small, this.#from, this.#to - this.#from);
    let buffer = pool.take(Math.min(size, FIRST_LARGE_BYTES));
    new Uint8Array(buffer).set(begun);
    let length = begun.length;
    this.#from = this.#to = 0;
    while (length < size) {
      if (length === buffer.byteLength) {
        const larger = pool.take(Math.min(size, 2 * length));
        new Uint8Array(larger).set(new Uint8Array(buffer));
        pool.give(buffer);
        buffer = larger;
      }
      const wanted = Math.min(size, buffer.byteLength) - length;
      // The runtime reads until the message is complete, instead of returning each chunk.
      const read = await this.#read(new Uint8Array(buffer, length, wanted), wanted);
      if (read === undefined) throw this.#broken(cutOff());
      buffer = read.buffer;
      length += read.length;
    }
    this.#large = buffer;
    return new Uint8Array(buffer, FRAME_BYTES, size - FRAME_BYTES);
  }

  /** @param into its buffer is the result's afterwards @returns undefined at the end */
  async #read(
    into: Uint8Array<ArrayBuffer>,
    min = 1,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (this.#reader === undefined) return undefined;
    const reading = this.#reader.read(into, { min }).catch((cause) => {
      throw this.#broken(clientDisconnected(cause));
    });
    const { done, value } = await this.#interruption.wait(reading);
    if (!done) return value;
    this.#reader = undefined;
    return undefined;
  }

  /** Makes later calls fail with the same error. */
  #broken(error: MosaicError): MosaicError {
    this.interrupt(error);
    return error;
  }

  #release(): void {
    if (this.#large !== undefined) pool.give(this.#large);
    this.#large = undefined;
  }
}

/** The body of an empty request is a stream that cannot read into a buffer. */
function readerOf(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader {
  try {
    return body.getReader({ mode: "byob" });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return bytesOf(body.getReader()).getReader({ mode: "byob" });
  }
}

function bytesOf(reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    type: "bytes",
    async pull(controller) {
      let { done, value } = await reader.read();
      // The runtime calls `pull` again only after it has returned data.
      while (value?.length === 0) ({ done, value } = await reader.read());
      if (!done) return controller.enqueue(value as Uint8Array<ArrayBuffer>);
      controller.close();
      controller.byobRequest?.respond(0);
    },
    cancel: () => reader.cancel(),
  });
}

function cutOff(): MosaicError {
  return new MosaicError("invalid_argument", "the stream ends in the middle of a message");
}

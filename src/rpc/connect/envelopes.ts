/** A client's stream of enveloped messages (a byte of flags, the length in four, the message), read as they are taken. */
import { boundReached } from "../../base/load_limits.ts";
import { MosaicError } from "../../base/errors.ts";
import { FRAME_BYTES } from "../../wire/frames.ts";
import type { Incoming } from "../handlers.ts";

/** Splits bytes as they come; copies only messages that came in several pieces. */
export class EnvelopeSplitter {
  readonly #most: number;
  /** What has come of an envelope that is not whole yet, its header included. */
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** No envelope is begun. */
  get whole(): boolean {
    return this.#length === 0;
  }

  /** @returns the messages that are whole now @throws MosaicError `resource_exhausted`, `invalid_argument` */
  push(bytes: Uint8Array): Uint8Array[] {
    const messages: Uint8Array[] = [];
    this.#pieces.push(bytes);
    this.#length += bytes.length;
    while (this.#length >= FRAME_BYTES) {
      if (this.#pieces[0]!.length < FRAME_BYTES) this.#join();
      const size = FRAME_BYTES + this.#lengthOf(this.#pieces[0]!);
      if (this.#length < size) break;
      if (this.#pieces[0]!.length < size) this.#join();
      const first = this.#pieces[0]!;
      messages.push(first.subarray(FRAME_BYTES, size));
      this.#length -= size;
      if (first.length === size) this.#pieces.shift();
      else this.#pieces[0] = first.subarray(size);
    }
    return messages;
  }

  #lengthOf(header: Uint8Array): number {
    if (header[0] !== 0) {
      throw new MosaicError("invalid_argument", `a message has the flags ${header[0]}: none may be compressed`);
    }
    const length = new DataView(header.buffer, header.byteOffset).getUint32(1);
    if (length <= this.#most) return length;
    throw boundReached("maxMessageBytes", this.#most, `a message has ${length} bytes`, "Send less at once");
  }

  #join(): void {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    this.#pieces = [all];
  }
}

export class EnvelopedIncoming<T> implements Incoming<T> {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #splitter: EnvelopeSplitter;
  readonly #decode: (bytes: Uint8Array) => T;
  readonly #stopped: Promise<void>;
  #stop!: () => void;
  #interrupted: MosaicError | undefined;
  /** Asked for and not come yet. */
  #reading: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;

  /** @param signal aborted when the client has gone or the server stops: who waits for messages is woken. */
  constructor(
    body: ReadableStream<Uint8Array> | null,
    most: number,
    decode: (bytes: Uint8Array) => T,
    signal: AbortSignal,
  ) {
    this.#reader = body?.getReader();
    this.#splitter = new EnvelopeSplitter(most);
    this.#decode = decode;
    this.#stopped = new Promise((resolve) => this.#stop = resolve);
    const gone = () => this.interrupt(new MosaicError("aborted", "the client has gone"));
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone, { once: true });
  }

  async take(): Promise<T[]> {
    if (this.#reader === undefined) return [];
    for (;;) {
      if (this.#interrupted !== undefined) throw this.#interrupted;
      this.#reading ??= this.#reader.read();
      const read = await Promise.race([this.#reading, this.#stopped]).catch(broken);
      if (read === undefined) continue;
      this.#reading = undefined;
      if (read.done) {
        if (this.#splitter.whole) return [];
        throw new MosaicError("invalid_argument", "the stream ends in the middle of a message");
      }
      const messages = this.#splitter.push(read.value);
      if (messages.length > 0) return messages.map(this.#decode);
    }
  }

  interrupt(error: MosaicError): void {
    this.#interrupted ??= error;
    this.#stop();
  }

  /** The rest is not wanted. */
  async close(): Promise<void> {
    this.#reading?.catch(() => {});
    await this.#reader?.cancel().catch(() => {});
  }
}

function broken(cause: unknown): never {
  throw new MosaicError("aborted", "the client has gone", { cause });
}

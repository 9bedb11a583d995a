/**
 * Protobuf messages in gRPC's own framing (a zero byte, four bytes of length, the message), written
 * one after the other into one buffer. For streams of many small messages: the library's encoder
 * creates several objects and copies for each, and grpc-js does one write each; here a few hundred
 * messages are one chunk and one write. Fields are written as proto3 requires: in the order of the
 * calls, and not at all if they have the default.
 */

export const FRAME_BYTES = 5;
const SMALL = 1 << 16;
/** A larger buffer, needed only for huge records, is not kept. */
const KEPT = 1 << 20;
const SHORT_TEXT = 48;
const LENGTH_DELIMITED = 2;
const FIXED_64 = 1;

const encoder = new TextEncoder();

export class FrameWriter {
  #bytes = new Uint8Array(SMALL);
  #view = new DataView(this.#bytes.buffer);
  #at = 0;
  #frame = 0;

  /** The frames written by `fill`. */
  written(fill: (frames: this) => void): Uint8Array {
    this.#at = 0;
    fill(this);
    const taken = this.#bytes.slice(0, this.#at);
    if (this.#bytes.length > KEPT) this.#resize(0, SMALL);
    return taken;
  }

  begin(): void {
    this.#reserve(FRAME_BYTES);
    this.#frame = this.#at;
    this.#bytes[this.#at] = 0;
    this.#at += FRAME_BYTES;
  }

  end(): void {
    this.#view.setUint32(this.#frame + 1, this.#at - this.#frame - FRAME_BYTES);
  }

  /** @param value an integer from 0 to 2^53 - 1 */
  uint(field: number, value: number): void {
    if (value === 0) return;
    this.#reserve(20);
    this.#tag(field, 0);
    this.#varint(value);
  }

  bool(field: number, value: boolean): void {
    this.uint(field, value ? 1 : 0);
  }

  double(field: number, value: number): void {
    if (value === 0) return;
    this.#reserve(20);
    this.#tag(field, FIXED_64);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  text(field: number, text: string): void {
    const { length } = text;
    if (length === 0) return;
    this.#reserve(20 + length * 3);
    this.#tag(field, LENGTH_DELIMITED);
    if (length > SHORT_TEXT || !this.#ascii(text)) this.#encode(text);
  }

  /** google.protobuf.Timestamp. @param ns Unix nanoseconds as decimal text, from 0 to 2^63 - 1 */
  timestamp(field: number, ns: string): void {
    this.#reserve(40);
    this.#tag(field, LENGTH_DELIMITED);
    const length = this.#at++;
    this.uint(1, ns.length > 9 ? Number(ns.slice(0, -9)) : 0);
    this.uint(2, Number(ns.slice(-9)));
    this.#bytes[length] = this.#at - length - 1;
  }

  #tag(field: number, type: number): void {
    this.#varint(field << 3 | type);
  }

  #varint(value: number): void {
    let rest = value;
    // Bit shifts would truncate to 32 bits.
    while (rest > 0x7fff_ffff) {
      this.#bytes[this.#at++] = rest % 128 | 128;
      rest = Math.floor(rest / 128);
    }
    while (rest > 127) {
      this.#bytes[this.#at++] = rest & 127 | 128;
      rest >>>= 7;
    }
    this.#bytes[this.#at++] = rest;
  }

  /** A short text with its length; false (and nothing written) if it is not all ASCII. */
  #ascii(text: string): boolean {
    const bytes = this.#bytes;
    const at = this.#at + 1;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (c > 127) return false;
      bytes[at + i] = c;
    }
    bytes[this.#at] = text.length;
    this.#at = at + text.length;
    return true;
  }

  /**
   * A text with its length, which is known only afterwards: space is reserved for the length of
   * ASCII, and enlarged if needed.
   */
  #encode(text: string): void {
    const guess = this.#at + sizeOf(text.length);
    const { written } = encoder.encodeInto(text, this.#bytes.subarray(guess));
    const begin = this.#at + sizeOf(written);
    if (begin !== guess) this.#bytes.copyWithin(begin, guess, guess + written);
    this.#varint(written);
    this.#at = begin + written;
  }

  #reserve(more: number): void {
    if (this.#at + more > this.#bytes.length) {
      this.#resize(this.#at, Math.max(this.#bytes.length * 2, this.#at + more));
    }
  }

  #resize(kept: number, length: number): void {
    const bytes = new Uint8Array(length);
    bytes.set(this.#bytes.subarray(0, kept));
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}

/** Bytes of a length as a varint. */
function sizeOf(length: number): number {
  return length < 0x80
    ? 1
    : length < 0x4000
    ? 2
    : length < 0x20_0000
    ? 3
    : length < 0x1000_0000
    ? 4
    : 5;
}

/** The messages in framed bytes, without their frames. */
export function* messagesOf(framed: Uint8Array): Generator<Uint8Array, void> {
  const view = new DataView(framed.buffer, framed.byteOffset, framed.byteLength);
  for (let at = 0; at < framed.length;) {
    const end = at + FRAME_BYTES + view.getUint32(at + 1);
    yield framed.subarray(at + FRAME_BYTES, end);
    at = end;
  }
}

/** HTTP/2's frames (RFC 9113), as far as one call over one connection needs them. */
import { MosaicError } from "../../base/errors.ts";
import { PendingBytes } from "./pending_bytes.ts";

export const FRAME = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

export const HEADER_BYTES = 9;
/** The longest frame that either end may send: both must accept it, and neither asks for more. */
export const MAX_FRAME_BYTES = 16_384;
/** Bytes that either end may send before the other grants more. */
export const FIRST_WINDOW = 65_535;
export const PREFACE = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const INITIAL_WINDOW_SETTING = 4;
/**
 * No dynamic table for headers, which both ends would have to keep in step, and no pushed answers.
 */
export const OWN_SETTINGS: readonly [setting: number, value: number][] = [[1, 0], [2, 0]];

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  /** Without padding and priority. Valid until the next frame is requested. */
  payload: Uint8Array;
  /** Bytes that count against the window. */
  length: number;
}

/** @param at position of the frame in `bytes` @param length of its payload */
export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  { length, type, flags, stream }: Omit<Frame, "payload">,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, HEADER_BYTES);
  view.setUint32(0, length * 256 + type);
  view.setUint8(4, flags);
  view.setUint32(5, stream);
}

export function frameOf(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_BYTES + payload.length);
  writeFrameHeader(bytes, 0, { length: payload.length, type, flags, stream });
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

export function windowUpdate(stream: number, bytes: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, bytes);
  return frameOf(FRAME.windowUpdate, 0, stream, payload);
}

export function settings(pairs: readonly [setting: number, value: number][]): Uint8Array {
  const payload = new Uint8Array(pairs.length * 6);
  const view = new DataView(payload.buffer);
  pairs.forEach(([setting, value], i) => {
    view.setUint16(i * 6, setting);
    view.setUint32(i * 6 + 2, value);
  });
  return frameOf(FRAME.settings, 0, 0, payload);
}

export function* settingsOf(payload: Uint8Array): Generator<[setting: number, value: number]> {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  for (let at = 0; at + 6 <= payload.length; at += 6) {
    yield [view.getUint16(at), view.getUint32(at + 2)];
  }
}

/**
 * The 32-bit number at `index` of a payload. @throws MosaicError `unavailable` if it is too short.
 */
export function numberIn(payload: Uint8Array, index: number): number {
  if (payload.length < index * 4 + 4) throw notHttp2Error(`a frame has ${payload.length} bytes`);
  return new DataView(payload.buffer, payload.byteOffset).getUint32(index * 4);
}

/**
 * The frames in bytes, which may come in chunks of any size. @throws MosaicError `unavailable` for
 * an invalid frame.
 */
export async function* framesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Frame, void> {
  const pending = new PendingBytes();
  for await (const chunk of chunks) {
    pending.push(chunk);
    for (;;) {
      const { bytes } = pending;
      if (bytes.length < HEADER_BYTES) break;
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const length = view.getUint32(0) >>> 8;
      if (length > MAX_FRAME_BYTES) throw notHttp2Error(`a frame of ${length} bytes`);
      if (bytes.length < HEADER_BYTES + length) break;
      const type = view.getUint8(3);
      const flags = view.getUint8(4);
      const stream = view.getUint32(5) & 0x7fff_ffff;
      const whole = bytes.subarray(HEADER_BYTES, HEADER_BYTES + length);
      yield { type, flags, stream, length, payload: contentOf(whole, type, flags) };
      pending.drop(HEADER_BYTES + length);
    }
  }
}

/**
 * Only data and headers have padding, and only headers a priority; in other frames the flags mean
 * something else.
 */
function contentOf(payload: Uint8Array, type: number, flags: number): Uint8Array {
  if (type !== FRAME.data && type !== FRAME.headers) return payload;
  const padded = (flags & FLAG.padded) !== 0;
  const from = (padded ? 1 : 0) + (type === FRAME.headers && (flags & FLAG.priority) !== 0 ? 5 : 0);
  const to = payload.length - (padded ? payload[0] ?? 0 : 0);
  if (from > to) {
    throw notHttp2Error(`a frame of ${payload.length} bytes has more padding than that`);
  }
  return payload.subarray(from, to);
}

function notHttp2Error(what: string): MosaicError {
  return new MosaicError(
    "unavailable",
    `the server is not a daemon: it does not speak HTTP/2 (${what})`,
  );
}

/** TFRecord frames: length (u64 LE), its masked CRC-32C, data, the data's masked CRC-32C. */
import { maskedCrc32c } from "../../base/crc32c.ts";

export const FRAME_HEADER_BYTES = 12;
export const FRAME_BYTES = 16;

/** One frame around `data`. */
export function frame(data: Uint8Array): Uint8Array {
  const out = new Uint8Array(FRAME_BYTES + data.length);
  const view = new DataView(out.buffer);
  view.setBigUint64(0, BigInt(data.length), true);
  view.setUint32(8, maskedCrc32c(out, 0, 8), true);
  out.set(data, FRAME_HEADER_BYTES);
  view.setUint32(FRAME_HEADER_BYTES + data.length, maskedCrc32c(data), true);
  return out;
}

function u32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>>
    0;
}

/**
 * The data length of the frame at `at`; undefined if no frame begins there. `at + 12` bytes must be
 * available.
 */
export function frameLength(bytes: Uint8Array, at: number): number | undefined {
  const high = u32(bytes, at + 4);
  if (high > 0x1fffff || u32(bytes, at + 8) !== maskedCrc32c(bytes, at, at + 8)) return undefined;
  return high * 0x1_0000_0000 + u32(bytes, at);
}

/** The data of the whole frame at `at`; undefined if its checksum is wrong. Not copied. */
export function frameData(bytes: Uint8Array, at: number, length: number): Uint8Array | undefined {
  const from = at + FRAME_HEADER_BYTES;
  const to = from + length;
  return u32(bytes, to) === maskedCrc32c(bytes, from, to) ? bytes.subarray(from, to) : undefined;
}

/** Position of the next frame header with a right checksum, from `from` on; -1 if there is none. */
export function findFrame(bytes: Uint8Array, from: number, maxLength: number): number {
  for (let at = from; at + FRAME_HEADER_BYTES <= bytes.length; at++) {
    // The upper half of the length first: it is zero in every real frame, and the test costs less
    // than a checksum.
    if ((bytes[at + 4]! | bytes[at + 5]! | bytes[at + 6]! | bytes[at + 7]!) !== 0) continue;
    const length = frameLength(bytes, at);
    if (length !== undefined && length <= maxLength) return at;
  }
  return -1;
}

/**
 * The log format of LevelDB: blocks of 32 KiB with chunks (checksum u32, length u16, type u8,
 * data). A record is one FULL chunk, or FIRST, MIDDLE …, LAST; no chunk crosses a block, and a rest
 * shorter than a chunk's header ends a block. W&B's variant begins with 7 bytes of its own, which
 * count as part of the first block, and uses plain CRC-32.
 */
import { joinedBytes } from "../../base/text/joined_bytes.ts";
import { zlib } from "../../base/node_modules.ts";
import { MAX_RECORD_BYTES } from "../format/base_reader.ts";

export const BLOCK_BYTES = 32_768;
const CHUNK_HEADER_BYTES = 7;
export const CHUNK = { FULL: 1, FIRST: 2, MIDDLE: 3, LAST: 4 } as const;

export type LogRecord =
  /**
   * `used` bytes were read. `data` is undefined for padding, and for parts of a record that was
   * lost.
   */
  | { used: number; data: Uint8Array | undefined }
  /** `used` bytes are damaged and skipped; the range may extend beyond the given bytes. */
  | { used: number; broken: string }
  | { used: number; tooLarge: true }
  /** More bytes are needed: this many from the record's beginning. */
  | { need: number };

export function chunkCrc(type: number, data: Uint8Array): number {
  const { crc32 } = zlib();
  return crc32(data, crc32(Uint8Array.of(type)));
}

/**
 * The record that begins at `at`. @param position of `bytes[at]` in the file @param end nothing
 * will be appended any more
 */
export function readLogRecord(
  bytes: Uint8Array,
  at: number,
  position: number,
  end: boolean,
): LogRecord {
  const parts: Uint8Array[] = [];
  let size = 0;
  let p = at;
  for (;;) {
    const restOfBlock = BLOCK_BYTES - (position + p - at) % BLOCK_BYTES;
    if (restOfBlock < CHUNK_HEADER_BYTES) {
      if (p + restOfBlock > bytes.length) return { need: p + restOfBlock - at };
      p += restOfBlock;
      if (parts.length === 0) return { used: p - at, data: undefined };
      continue;
    }
    if (p + CHUNK_HEADER_BYTES > bytes.length) return { need: p + CHUNK_HEADER_BYTES - at };
    const crc =
      (bytes[p]! | (bytes[p + 1]! << 8) | (bytes[p + 2]! << 16) | (bytes[p + 3]! << 24)) >>> 0;
    const length = bytes[p + 4]! | (bytes[p + 5]! << 8);
    const type = bytes[p + 6]!;
    const to = p + CHUNK_HEADER_BYTES + length;
    const fits = CHUNK_HEADER_BYTES + length <= restOfBlock && type >= CHUNK.FULL &&
      type <= CHUNK.LAST;
    if (fits && to > bytes.length) return { need: to - at };
    const data = bytes.subarray(p + CHUNK_HEADER_BYTES, to);
    if (!fits || chunkCrc(type, data) !== crc) {
      // A growing block may show zeros before its bytes arrive, so only a complete one is judged.
      if (!end && p + restOfBlock > bytes.length) return { need: p + restOfBlock - at };
      return {
        used: p + restOfBlock - at,
        broken: fits ? "wrong checksum" : "no chunk begins here",
      };
    }
    const begins = type === CHUNK.FULL || type === CHUNK.FIRST;
    if (begins && parts.length > 0) return { used: p - at, broken: "a record without its end" };
    if (!begins && parts.length === 0) return { used: to - at, data: undefined };
    if (type === CHUNK.FULL) return { used: to - at, data };
    size += length;
    if (size > MAX_RECORD_BYTES) return { used: to - at, tooLarge: true };
    parts.push(data);
    p = to;
    if (type === CHUNK.LAST) return { used: p - at, data: joinedBytes(parts) };
  }
}

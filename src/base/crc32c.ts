/** CRC-32C (Castagnoli), which frames the records of TensorBoard's event files. */

/**
 * Table k (256 entries from 256k) advances a byte's remainder by k further bytes, so eight bytes
 * cost one step.
 */
const TABLES = new Uint32Array(8 * 256);
for (let n = 0; n < 256; n++) {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0x82f63b78 ^ (c >>> 1) : c >>> 1;
  TABLES[n] = c;
}
for (let i = 256; i < TABLES.length; i++) {
  TABLES[i] = TABLES[TABLES[i - 256]! & 0xff]! ^ (TABLES[i - 256]! >>> 8);
}

/**
 * The checksum of `bytes` from `from` to `to`. @param before the checksum of the preceding bytes
 */
export function crc32c(bytes: Uint8Array, from = 0, to = bytes.length, before = 0): number {
  const t = TABLES;
  let c = before ^ 0xffffffff;
  let i = from;
  for (; i + 8 <= to; i += 8) {
    c = t[1792 + ((c ^ bytes[i]!) & 0xff)]! ^
      t[1536 + (((c >>> 8) ^ bytes[i + 1]!) & 0xff)]! ^
      t[1280 + (((c >>> 16) ^ bytes[i + 2]!) & 0xff)]! ^
      t[1024 + ((c >>> 24) ^ bytes[i + 3]!)]! ^
      t[768 + bytes[i + 4]!]! ^
      t[512 + bytes[i + 5]!]! ^
      t[256 + bytes[i + 6]!]! ^
      t[bytes[i + 7]!]!;
  }
  for (; i < to; i++) c = t[(c ^ bytes[i]!) & 0xff]! ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

/**
 * As stored in TFRecord: rotated and offset, so that the checksum stays strong for data that
 * contains checksums.
 */
export function maskedCrc32c(bytes: Uint8Array, from = 0, to = bytes.length): number {
  const crc = crc32c(bytes, from, to);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** A column of texts as bytes, before compression. Pure; what comes out is what went in, to the byte. */

const TEXTS = 0;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param values well-formed and without NUL, as all storable texts are */
export function encodeTexts(values: readonly string[]): Uint8Array {
  const text = encoder.encode(`\0${values.join("\0")}`);
  text[0] = TEXTS;
  return text;
}

/** @throws Error when there are not `n` of them */
export function decodeTexts(bytes: Uint8Array, n: number): string[] {
  if (bytes[0] !== TEXTS) throw new Error(`a column has form ${bytes[0]}, which this mosaic does not know`);
  const values = decoder.decode(bytes.subarray(1)).split("\0");
  if (values.length !== n) throw new Error(`a column has ${values.length} of ${n} texts`);
  return values;
}

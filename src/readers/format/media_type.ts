/** Recognizes the type of pictures and sounds by their first bytes. */

const SIGNATURES: readonly [type: string, at: number, bytes: string][] = [
  ["image/png", 0, "\x89PNG"],
  ["image/jpeg", 0, "\xff\xd8\xff"],
  ["image/gif", 0, "GIF8"],
  ["image/webp", 8, "WEBP"],
  ["audio/wav", 8, "WAVE"],
  ["audio/ogg", 0, "OggS"],
  ["audio/mpeg", 0, "ID3"],
  ["video/mp4", 4, "ftyp"],
  ["video/webm", 0, "\x1aE\xdf\xa3"],
];

/** MIME type; "" if unknown. */
export function mediaType(bytes: Uint8Array): string {
  const begins = (at: number, text: string) =>
    [...text].every((char, i) => bytes[at + i] === char.charCodeAt(0));
  return SIGNATURES.find(([, at, text]) => begins(at, text))?.[0] ?? "";
}

/** Width and height of a PNG or GIF. */
export function imageSize(bytes: Uint8Array): { width: number; height: number } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const type = mediaType(bytes);
  if (type === "image/png" && bytes.length >= 24) {
    return { width: view.getUint32(16), height: view.getUint32(20) };
  }
  if (type === "image/gif" && bytes.length >= 10) {
    return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  }
  return undefined;
}

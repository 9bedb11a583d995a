/** Concatenates the parts; a single part is returned itself, not copied. */
export function joinedBytes<B extends ArrayBufferLike>(
  parts: readonly Uint8Array<B>[],
): Uint8Array<B | ArrayBuffer> {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

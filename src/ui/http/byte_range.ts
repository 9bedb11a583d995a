/** Parses which part of a file a request asks for (RFC 9110, section 14). Pure. */

export interface ByteRange {
  /** First byte. */
  begin: number;
  /** The byte after the last. */
  end: number;
}

/**
 * The part that `header` (`Range`) asks for of `size` bytes; "unsatisfiable" if none of them exist.
 * Undefined: send the whole file, also for several ranges, other units and malformed headers.
 */
export function byteRange(
  header: string | null,
  size: number,
): ByteRange | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (match === null || (match[1] === "" && match[2] === "")) return undefined;
  if (match[1] === "") {
    const last = Number(match[2]);
    return last === 0 || size === 0
      ? "unsatisfiable"
      : { begin: Math.max(0, size - last), end: size };
  }
  const begin = Number(match[1]);
  const end = match[2] === "" ? size : Math.min(size, Number(match[2]) + 1);
  if (match[2] !== "" && Number(match[2]) < begin) return undefined;
  return begin >= size ? "unsatisfiable" : { begin, end };
}

/** Whether `If-Range` matches this content: by its ETag, or its time of change to the second. */
export function isSameContent(ifRange: string | null, etag: string, changedAt: Date): boolean {
  return ifRange === null || ifRange === etag || ifRange === changedAt.toUTCString();
}

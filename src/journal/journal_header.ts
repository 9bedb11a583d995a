/**
 * The first line of a journal whose file the worker can truncate by name
 * (src/journal/journal_file.ts): if the line is missing, the file was truncated. It is white space,
 * not a record, and not shown as part of the log.
 */
export const JOURNAL_HEADER: Uint8Array = new TextEncoder().encode("\t \t \t \n");

/** Length of the header at the beginning of a file; 0 if there is none. */
export function headerLength(first: Uint8Array): number {
  const { length } = JOURNAL_HEADER;
  return first.length >= length && JOURNAL_HEADER.every((byte, i) => byte === first[i])
    ? length
    : 0;
}

/** Offset of a log's first byte, after the header if there is one. Moves the file's position. */
export function logStart(file: Deno.FsFile): number {
  const bytes = new Uint8Array(JOURNAL_HEADER.length);
  file.seekSync(0, Deno.SeekMode.Start);
  return headerLength(bytes.subarray(0, file.readSync(bytes) ?? 0));
}

/**
 * The first line of a journal that its worker could empty by name (src/proxy/journal_file.ts): while it is there, nobody
 * has. It is blank for whoever reads the file by hand; no worker's record, and not shown as a part of the log.
 */
export const JOURNAL_HEADER: Uint8Array = new TextEncoder().encode("\t \t \t \n");

/** Bytes of the header in what a file begins with; 0 where there is none. */
export function headerLength(first: Uint8Array): number {
  const { length } = JOURNAL_HEADER;
  return first.length >= length && JOURNAL_HEADER.every((byte, i) => byte === first[i]) ? length : 0;
}

/** Where a log begins: behind the header, if there is one. The file's position is moved. */
export function logStart(file: Deno.FsFile): number {
  const bytes = new Uint8Array(JOURNAL_HEADER.length);
  file.seekSync(0, Deno.SeekMode.Start);
  return headerLength(bytes.subarray(0, file.readSync(bytes) ?? 0));
}

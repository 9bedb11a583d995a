/**
 * The first line of a journal that its worker could empty by name (src/proxy/journal_file.ts): while it is there, nobody
 * has. It is blank for whoever reads the file by hand; no worker's record, and not shown as a part of the log.
 */
export const JOURNAL_HEADER: Uint8Array = new TextEncoder().encode("\t \t \t \n");

/** Where a log begins: behind the header, if there is one. The file's position is moved. */
export function logStart(file: Deno.FsFile): number {
  const bytes = new Uint8Array(JOURNAL_HEADER.length);
  file.seekSync(0, Deno.SeekMode.Start);
  const read = file.readSync(bytes) ?? 0;
  return read === bytes.length && bytes.every((byte, i) => byte === JOURNAL_HEADER[i]) ? bytes.length : 0;
}

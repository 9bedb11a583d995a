/** The last lines of a text file, to explain a failure. */
import { openLogInProxy } from "../os/files/untrusted.ts";

const TAIL_BYTES = 64 << 10;
const LINE_LENGTH = 2000;

/** @returns at most `count` lines, each cut to 2000 characters; none if there is no such file. */
export function lastLines(path: string, count: number): string[] {
  let file: Deno.FsFile | undefined;
  try {
    file = openLogInProxy(path);
  } catch {
    return [];
  }
  if (file === undefined) return [];
  try {
    const size = file.statSync().size;
    const from = Math.max(0, size - TAIL_BYTES);
    file.seekSync(from, Deno.SeekMode.Start);
    const bytes = new Uint8Array(size - from);
    let held = 0;
    for (
      let read: number | null;
      held < bytes.length && (read = file.readSync(bytes.subarray(held))) !== null;
    ) {
      held += read;
    }
    const lines = new TextDecoder().decode(bytes.subarray(0, held)).split(/\r?\n/);
    // The first line may be incomplete.
    if (from > 0 && lines.length > 1) lines.shift();
    return lines.filter((line) => line.trim() !== "").slice(-count).map((line) =>
      line.slice(0, LINE_LENGTH)
    );
  } finally {
    file.close();
  }
}

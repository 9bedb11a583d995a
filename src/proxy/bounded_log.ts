/** The proxy's log file. */
import type { LogSink } from "../base/log_line.ts";
import { openForAppending, renameFile } from "../os/files/untrusted_changes.ts";

const MAX_BYTES = 1 << 20;
const encoder = new TextEncoder();

/** A file of bounded size: at its bound it is renamed to `….1`, replacing the earlier one. */
export function boundedFileSink(path: string, maxBytes = MAX_BYTES): LogSink {
  let file: Deno.FsFile | undefined;
  let size = 0;
  const open = () => {
    file = openForAppending(path);
    size = file.statSync().size;
  };
  return (line) => {
    try {
      if (file === undefined) open();
      const bytes = encoder.encode(line);
      if (size + bytes.length > maxBytes && size > 0) {
        file!.close();
        file = undefined;
        renameFile(path, `${path}.1`);
        open();
      }
      file!.writeSync(bytes);
      size += bytes.length;
    } catch {
      // A log that cannot be written (full disk, removed directory) must not end the run; the next
      // line tries again.
    }
  };
}

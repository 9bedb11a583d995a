/**
 * The proxy's log, in a form for people. It is not the daemon's logger, because loading that takes longer than all else
 * that a proxy does to start a worker.
 */
import { type LogSink, textLine } from "../base/log_line.ts";
import { openForAppending } from "../os/untrusted.ts";

type Say = {
  (message: string): void;
  (fields: Record<string, unknown>, message: string): void;
};

export interface ProxyLog {
  info: Say;
  warn: Say;
  error: Say;
  fatal: Say;
}

/** A log that hands each line, with `fields` on it, to every sink. */
export function proxyLog(sinks: readonly LogSink[], fields: Record<string, unknown> = {}): ProxyLog {
  const at = (level: string): Say => (first: string | Record<string, unknown>, message?: string) => {
    const time = new Date().toISOString();
    const line = typeof first === "string"
      ? textLine({ time, level, msg: first, ...fields })
      : textLine({ time, level, msg: message, ...fields, ...first });
    for (const sink of sinks) sink(line);
  };
  return { info: at("info"), warn: at("warn"), error: at("error"), fatal: at("fatal") };
}

const MAX_BYTES = 1 << 20;
const encoder = new TextEncoder();

/** A file that stays small: at its bound it becomes `….1`, replacing the one before. */
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
        Deno.renameSync(path, `${path}.1`);
        open();
      }
      file!.writeSync(bytes);
      size += bytes.length;
    } catch {
      // A log that cannot be written (full disk, removed directory) must not end the run; the next line tries again.
    }
  };
}

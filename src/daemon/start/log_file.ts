/** logs/daemon.log, rotated at a maximum size. */
import type { LogSink } from "../../base/log_line.ts";

export interface LogFileLimits {
  /** Size at which a file is full. */
  maxBytes: number;
  /** Number of rotated files; `.1` is the newest. */
  kept: number;
}

const LIMITS: LogFileLimits = { maxBytes: 10 << 20, kept: 3 };

export class LogFile {
  readonly #path: string;
  readonly #limits: LogFileLimits;
  readonly #encoder = new TextEncoder();
  #file: Deno.FsFile | undefined;
  #bytes = 0;

  constructor(path: string, limits: LogFileLimits = LIMITS) {
    this.#path = path;
    this.#limits = limits;
  }

  /** Never throws: a full disk must not stop the daemon. The line is also written to stderr. */
  readonly write: LogSink = (line) => {
    try {
      const bytes = this.#encoder.encode(line);
      if (this.#file !== undefined && this.#bytes + bytes.length > this.#limits.maxBytes) {
        this.#rotate();
      }
      this.#file ??= this.#open();
      for (let done = 0; done < bytes.length;) done += this.#file.writeSync(bytes.subarray(done));
      this.#bytes += bytes.length;
    } catch {
      this.close();
    }
  };

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #open(): Deno.FsFile {
    const file = Deno.openSync(this.#path, { append: true, create: true, mode: 0o600 });
    this.#bytes = file.statSync().size;
    return file;
  }

  #rotate(): void {
    this.close();
    for (let n = this.#limits.kept; n >= 1; n--) {
      try {
        Deno.renameSync(n === 1 ? this.#path : `${this.#path}.${n - 1}`, `${this.#path}.${n}`);
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      }
    }
  }
}

/** Copies a worker's output file to the proxy's own output, for `docker logs` and the like. */
import { logStart } from "../../journal/journal_header.ts";
import { openLogInProxy } from "../../os/files/untrusted.ts";

const CHUNK_BYTES = 64 << 10;

export class Mirror {
  readonly #path: string;
  readonly #to: { write(bytes: Uint8Array): Promise<number> };
  #file: Deno.FsFile | undefined;
  #broken = false;
  #running: Promise<void> | undefined;

  constructor(path: string, to: { write(bytes: Uint8Array): Promise<number> }) {
    this.#path = path;
    this.#to = to;
  }

  /** Copies new output. One copy runs at a time; a slow reader delays only the copy. */
  copy(): Promise<void> {
    return this.#running ??= this.#copy().finally(() => this.#running = undefined);
  }

  /** Copies up to the current end. */
  async finish(): Promise<void> {
    await this.#running;
    await this.copy();
  }

  /** The file is still needed from here on. */
  get position(): number {
    if (this.#broken) return Infinity;
    return this.#file?.seekSync(0, Deno.SeekMode.Current) ?? 0;
  }

  /** Earlier output is not repeated. */
  skip(): void {
    try {
      this.#file ??= openLogInProxy(this.#path);
      this.#file?.seekSync(0, Deno.SeekMode.End);
    } catch {
      // The file does not exist yet: nothing to skip.
    }
  }

  #opened(): Deno.FsFile | undefined {
    const file = openLogInProxy(this.#path);
    file?.seekSync(logStart(file), Deno.SeekMode.Start);
    return file;
  }

  async #copy(): Promise<void> {
    if (this.#broken) return;
    try {
      this.#file ??= this.#opened();
      if (this.#file === undefined) return;
      const { size } = this.#file.statSync();
      // The file was truncated: its content is new.
      if (size < this.#file.seekSync(0, Deno.SeekMode.Current)) {
        this.#file.seekSync(0, Deno.SeekMode.Start);
      }
      const buffer = new Uint8Array(CHUNK_BYTES);
      for (let read: number | null; (read = this.#file.readSync(buffer)) !== null && read > 0;) {
        for (let done = 0; done < read;) done += await this.#to.write(buffer.subarray(done, read));
      }
    } catch {
      // The output was closed, or something else is in the file's place.
      this.#broken = true;
    }
  }
}

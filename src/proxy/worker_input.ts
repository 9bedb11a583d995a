/** Control messages to a worker that reads them on its standard input, which is a FIFO then. */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { WorkerRequest } from "./events_and_effects.ts";

export class WorkerInput {
  readonly #path: string;
  readonly #log: Logger;
  #fifo: Deno.FsFile | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, log: Logger) {
    this.#path = path;
    this.#log = log;
  }

  /** One message after the other: a worker that does not read lets the pipe fill up, and then they wait here. */
  send(control: WorkerRequest): void {
    const bytes = new TextEncoder().encode(JSON.stringify({ control }) + "\n");
    this.#writing = this.#writing.then(async () => {
      this.#fifo ??= await openFifo(this.#path);
      await this.#fifo.write(bytes);
    }).catch((error) => {
      this.#log.warn({ error: messageOf(error) }, "the worker's standard input cannot be written");
    });
  }

  close(): void {
    try {
      this.#fifo?.close();
    } catch {
      // A write is still waiting; it ends with the process.
    }
    this.#fifo = undefined;
  }
}

/** Open for both, it neither blocks nor ends. @throws where the worker has put something else in its place */
async function openFifo(path: string): Promise<Deno.FsFile> {
  const file = await Deno.open(path, { read: true, write: true });
  if ((await file.stat()).isFifo) return file;
  file.close();
  throw new Error(`${path} is no FIFO any more`);
}

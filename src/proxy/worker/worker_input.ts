/** Control messages to a worker that reads them on its standard input, which is then a FIFO. */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { WorkerRequest } from "../state/events_and_effects.ts";
import { openFifo } from "../../os/files/untrusted_changes.ts";

export class WorkerInput {
  readonly #path: string;
  readonly #log: Logger;
  #fifo: Deno.FsFile | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, log: Logger) {
    this.#path = path;
    this.#log = log;
  }

  /**
   * Sends one message after the other: if a worker does not read, the pipe fills up, and messages
   * wait here.
   */
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
      // A write still waits; it ends with the process.
    }
    this.#fifo = undefined;
  }
}

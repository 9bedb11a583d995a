/**
 * Fetches the checkpoint that an attempt resumes from, on a host that shares no disk with the
 * daemon: before the worker is started, in chunks, continuing what is there already. A file gets
 * its name when it is complete and its checksum is right.
 */
import { createHash, type Hash } from "node:crypto";
import { MosaicClient } from "../../wire/client/client.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/time/sleep.ts";
import { type FilePiece, Ingest } from "../../gen/mosaic/v1/ingest_pb.ts";
import {
  makeDirectoriesTo,
  makeDirectory,
  openFile,
  quarantineFile,
  removeFile,
  renameFile,
} from "../../os/files/untrusted_changes.ts";
import { crc32c } from "../../base/crc32c.ts";
import type { DialOptions } from "../../wire/address/dial.ts";
import { ownIn } from "../../os/files/untrusted.ts";
import { type Start } from "../../os/files/untrusted_way.ts";
import { parentOf } from "../../os/files/files.ts";

const CHUNK_BYTES = 256 << 10;
const AGAIN_MS = 1000;
const PART = ".part";

export interface Fetching {
  runId: string;
  attempt: number;
  /** The directory below which it is written, by its path in the run's directory. */
  directory: string;
  /** The daemon's current address, and the proxy's credentials. */
  dialOptions: () => DialOptions;
  /** Fails after so long without a new byte. */
  patienceMs: number;
  signal: AbortSignal;
  log: Logger;
}

/**
 * @throws MosaicError the daemon's error if it does not have the checkpoint, or why nothing arrived
 */
export async function fetchCheckpoint(fetching: Fetching): Promise<void> {
  const { runId, attempt, directory, patienceMs, signal, log } = fetching;
  const had = new Map<string, number>();
  let [bytes, progressAt] = [0, performance.now()];
  const take = async () => {
    const { target, token, tls, serverName } = fetching.dialOptions();
    const client = new MosaicClient(target, { token, tls, serverName });
    let file: Incoming | undefined;
    try {
      const have = [...had].map(([path, size]) => ({ path, bytes: BigInt(size) }));
      for await (
        const chunk of client.stream(Ingest.method.fetch, { runId, attempt, have }, signal)
      ) {
        if (file?.path !== chunk.path) {
          file?.close();
          file = new Incoming(directory, chunk);
        }
        had.set(chunk.path, 0);
        const arrived = await file.take(chunk);
        bytes += chunk.data.length;
        had.set(chunk.path, arrived);
        progressAt = performance.now();
      }
    } finally {
      file?.close();
      client.close();
    }
  };
  for (;;) {
    try {
      await take();
      signal.throwIfAborted();
      return log.info({ bytes, files: had.size }, "checkpoint fetched");
    } catch (error) {
      if (signal.aborted) throw error;
      const isFinal = error instanceof MosaicError &&
        (error.code === "not_found" || error.code === "failed_precondition");
      if (isFinal || performance.now() - progressAt > patienceMs) throw error;
      log.warn({ error: messageOf(error), bytes }, "fetching the rest of the checkpoint again");
      await sleep(AGAIN_MS);
    }
  }
}

class Incoming {
  readonly path: string;
  readonly #place: string;
  readonly #own: Start;
  readonly #file: Deno.FsFile;
  readonly #hash: Hash = createHash("sha256");
  #size = 0;

  constructor(directory: string, { path, offset }: FilePiece) {
    const parts = path.split("/");
    if (parts.some((part) => part === "" || part === "." || part === "..") || path.includes("\0")) {
      throw new MosaicError(
        "failed_precondition",
        `the daemon names a file of the checkpoint ${JSON.stringify(path)}`,
      );
    }
    // `directory` is in the run's control directory.
    this.#own = ownIn(parentOf(parentOf(directory)));
    this.path = path;
    this.#place = `${directory}/${path}`;
    makeDirectory(directory);
    makeDirectoriesTo(this.#place, directory, this.#own);
    this.#file = openFile(this.#place + PART, this.#own);
    this.#file.truncateSync(Number(offset));
    const buffer = new Uint8Array(CHUNK_BYTES);
    for (
      let read = this.#file.readSync(buffer);
      read !== null;
      read = this.#file.readSync(buffer)
    ) {
      this.#hash.update(buffer.subarray(0, read));
      this.#size += read;
    }
  }

  /**
   * @returns the length to report as present if the connection breaks now. @throws for an invalid
   * chunk
   */
  async take({ data, crc, offset, size, sha256 }: FilePiece): Promise<number> {
    // The last chunk is sent also if all bytes are present but were never checked.
    const skip = this.#size - Number(offset);
    if (skip < 0 || skip > data.length || crc32c(data) !== crc) {
      throw new Error(`a chunk of ${this.path} is damaged`);
    }
    const fresh = data.subarray(skip);
    for (let done = 0; done < fresh.length;) done += await this.#file.write(fresh.subarray(done));
    this.#hash.update(fresh);
    this.#size += fresh.length;
    if (sha256 === "") return this.#size;
    if (this.#size !== Number(size) || this.#hash.digest("hex") !== sha256) {
      removeFile(this.#place + PART, this.#own);
      throw new Error(`${this.path} is not what the daemon has`);
    }
    quarantineFile(this.#place, "file", this.#own);
    renameFile(this.#place + PART, this.#place, { from: this.#own, to: this.#own });
    return this.#size;
  }

  close(): void {
    this.#file.close();
  }
}

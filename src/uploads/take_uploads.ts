/**
 * Stores the files that an attempt's proxy uploads, if its host shares no disk with the daemon. A
 * file comes in chunks, in order, into a partial file below the run's control directory; a complete
 * one is verified, synced and renamed to its final path. So a connection or a process may end at
 * any moment: the next one asks how much is stored. Logs are written to their final path from the
 * start. A file at its final path with the same size and time counts as the same file: no other
 * record of uploads is kept.
 */
import type { Hash } from "node:crypto";
import { sha256 } from "../base/node_modules.ts";
import type { RunFiles } from "../base/layout.ts";
import { logFiles, storedPath } from "./uploaded.ts";
import { freeSpaceOf } from "../os/host/free_space.ts";
import { entriesOf, infoOf, openRegular, ownIn } from "../os/files/untrusted.ts";
import {
  makeDirectoriesTo,
  makeDirectory,
  openFile,
  quarantineFile,
  removeFile,
  removeTreeNow,
  renameFile,
} from "../os/files/untrusted_changes.ts";
import { crc32c } from "../base/crc32c.ts";
import { type Start } from "../os/files/untrusted_way.ts";

export const MOST_CHUNK_BYTES = 256 << 10;
/** Bound for one attempt. */
const MAX_FILES = 20_000;

export interface Chunk {
  path: string;
  size: number;
  /** Unix milliseconds; 0 for a log. */
  changedAt: number;
  offset: number;
  data: Uint8Array;
  crc: number;
  /** SHA-256 of the whole file; "" before its last chunk. */
  sha256: string;
}

export interface ChunkAnswer {
  offset: number;
  done?: boolean;
  refused?: string;
  hold?: boolean;
}

export interface UploadsOptions {
  files: RunFiles;
  attempt: number;
  allowance: Allowance;
}

/** The bound on the files of one attempt, over all its connections. */
export class Allowance {
  readonly #maxBytes: number;
  readonly #sizes = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Counts a file with its present size. @returns why it may not be stored */
  refusal(stored: string, size: number): string | undefined {
    const before = this.#sizes.get(stored);
    if (before === undefined && this.#sizes.size >= MAX_FILES) {
      return `the attempt has ${MAX_FILES} files already`;
    }
    const bytes = this.#bytes - (before ?? 0) + size;
    if (bytes > this.#maxBytes) {
      return `the attempt's files would have more than ${this.#maxBytes} bytes (--max-upload)`;
    }
    this.#sizes.set(stored, size);
    this.#bytes = bytes;
    return undefined;
  }
}

interface Open {
  key: string;
  file: Deno.FsFile;
  at: number;
  /** Hash of the bytes before `at`; undefined if they were written over an earlier connection. */
  hash: Hash | undefined;
}

export class Uploads implements Disposable {
  readonly #options: UploadsOptions;
  readonly #parts: string;
  readonly #logs: readonly string[];
  #open: Open | undefined;

  constructor(options: UploadsOptions) {
    this.#options = options;
    this.#parts = partsOf(options.files, options.attempt);
    this.#logs = logFiles(options.files, options.attempt);
  }

  /**
   * Stores one chunk after the other. @throws errors of the disk; a full disk is no error but a
   * hold
   */
  async take(chunk: Chunk): Promise<ChunkAnswer> {
    const { files, attempt } = this.#options;
    const stored = storedPath(files.workerId, attempt, chunk.path);
    const refused = stored === undefined
      ? "an attempt must not write this path"
      : this.#refusal(chunk, stored);
    if (refused !== undefined) return { offset: 0, refused };
    const key = `${stored}\n${chunk.size}\n${chunk.changedAt}`;
    try {
      return this.#logs.includes(chunk.path)
        ? await this.#log(`${files.directory}/${stored}`, stored!, chunk)
        : await this.#file(`${files.directory}/${stored}`, stored!, key, chunk);
    } catch (error) {
      this.close();
      if (isNoSpace(error)) return { offset: 0, hold: true };
      throw error;
    }
  }

  #refusal({ data, crc, size, offset }: Chunk, stored: string): string | undefined {
    if (data.length > MOST_CHUNK_BYTES) {
      return `a chunk has ${data.length} bytes; at most ${MOST_CHUNK_BYTES} are taken`;
    }
    const isWhole = [size, offset].every((value) => Number.isSafeInteger(value) && value >= 0);
    if (!isWhole || offset + data.length > size) return "its chunks do not fit its size";
    if (data.length > 0 && crc32c(data) !== crc) {
      throw new Error(`a chunk of ${stored} was damaged on its way`);
    }
    return this.#options.allowance.refusal(stored, size);
  }

  // --------------------------------------------------------------------------------------------------------
  // files

  async #file(place: string, stored: string, key: string, chunk: Chunk): Promise<ChunkAnswer> {
    const { size, changedAt, offset, data } = chunk;
    if (this.#isStored(place, size, changedAt)) return { offset: size, done: true };
    if (this.#open?.key !== key) this.#begin(stored, key, chunk);
    const open = this.#open!;
    if (offset !== open.at) return { offset: open.at };
    if (!freeSpaceOf(this.#options.files.directory).enough) return { offset: open.at, hold: true };
    await write(open, data);
    if (open.at < size || chunk.sha256 === "") return { offset: open.at };
    if (await this.#digest(open) !== chunk.sha256) {
      open.file.truncateSync(0);
      this.close();
      return { offset: 0 };
    }
    await open.file.syncData();
    await open.file.utime(new Date(changedAt), new Date(changedAt));
    this.close();
    const { directory } = this.#options.files;
    makeDirectoriesTo(place, directory, directory);
    quarantineFile(place, "file", directory);
    renameFile(partOf(this.#parts, stored, chunk), place, {
      from: ownIn(directory),
      to: directory,
    });
    return { offset: size, done: true };
  }

  #isStored(place: string, size: number, changedAt: number): boolean {
    using existing = openRegularOrNothing(place, this.#options.files.directory);
    if (existing === undefined) return false;
    const { size: bytes, mtimeMs } = existing.stat();
    return bytes === size && Math.trunc(mtimeMs) === changedAt;
  }

  #begin(stored: string, key: string, chunk: Chunk): void {
    this.close();
    const { control, directory } = this.#options.files;
    makeDirectory(control);
    makeDirectory(this.#parts);
    const path = partOf(this.#parts, stored, chunk);
    const own = ownIn(directory);
    makeDirectoriesTo(path, this.#parts, own);
    removeOtherVersions(path, stored, own);
    this.#open = openAt(path, key, own);
  }

  // ---------------------------------------------------------------------------------------------------------
  // logs

  async #log(place: string, stored: string, chunk: Chunk): Promise<ChunkAnswer> {
    const { offset, data, sha256, size } = chunk;
    if (this.#open?.key !== stored) {
      this.close();
      makeDirectory(this.#options.files.logs);
      this.#open = openAt(place, stored);
    }
    const open = this.#open!;
    if (offset !== open.at) {
      // The last chunk begins before what is stored: the file was truncated on the other host.
      if (sha256 === "" || offset > open.at) return { offset: open.at };
      return this.#emptied(open);
    }
    if (!freeSpaceOf(this.#options.files.directory).enough) return { offset: open.at, hold: true };
    await write(open, data);
    if (sha256 === "") return { offset: open.at };
    if (open.at !== size || await this.#digest(open) !== sha256) return this.#emptied(open);
    await open.file.syncData();
    return { offset: open.at, done: true };
  }

  #emptied(open: Open): ChunkAnswer {
    open.file.truncateSync(0);
    this.close();
    return { offset: 0 };
  }

  // --------------------------------------------------------------------------------------------------------
  // ends

  async #digest({ file, hash, at }: Open): Promise<string> {
    if (hash !== undefined) return hash.copy().digest("hex");
    const again = sha256();
    const buffer = new Uint8Array(MOST_CHUNK_BYTES);
    await file.seek(0, Deno.SeekMode.Start);
    for (let position = 0; position < at;) {
      const read = await file.read(buffer.subarray(0, Math.min(buffer.length, at - position)));
      if (read === null) break;
      again.update(buffer.subarray(0, read));
      position += read;
    }
    return again.digest("hex");
  }

  close(): void {
    this.#open?.file.close();
    this.#open = undefined;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Files of an attempt that were not uploaded completely: their names in the run's directory. Their
 * parts are removed.
 */
export function unfinishedUploads(
  files: RunFiles,
  attempt: number,
): { path: string; bytes: number }[] {
  const parts = partsOf(files, attempt);
  const found: { path: string; bytes: number }[] = [];
  const own = ownIn(files.directory);
  const walk = (directory: string) => {
    for (const { name, isDirectory, isFile } of entriesOf(directory, own)) {
      const path = `${directory}/${name}`;
      if (isDirectory) walk(path);
      else if (isFile) {
        const stored = path.slice(parts.length + 1).replace(/\.\d+-\d+\.part$/, "");
        found.push({ path: stored, bytes: infoOf(path, own)?.size ?? 0 });
      }
    }
  };
  try {
    if (infoOf(parts, own)?.isDirectory !== true) return [];
    walk(parts);
    removeTreeNow(parts);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found;
}

function partsOf(files: RunFiles, attempt: number): string {
  return `${files.control}/upload-${attempt}`;
}

function partOf(parts: string, stored: string, { size, changedAt }: Chunk): string {
  return `${parts}/${stored}.${size}-${changedAt}.part`;
}

/**
 * If a file changes during its upload, the upload begins again; the old beginning would never be
 * used.
 */
function removeOtherVersions(path: string, stored: string, own: Start): void {
  const directory = path.slice(0, path.lastIndexOf("/"));
  const name = stored.slice(stored.lastIndexOf("/") + 1);
  for (const entry of entriesOf(directory, own)) {
    const other = `${directory}/${entry.name}`;
    const version = entry.name.startsWith(`${name}.`) &&
      /^\d+-\d+\.part$/.test(entry.name.slice(name.length + 1));
    if (entry.isFile && version && other !== path) removeFile(other, own);
  }
}

function openRegularOrNothing(path: string, below: string) {
  try {
    return openRegular(path, below);
  } catch {
    // A link or a directory: it is renamed when the file is complete.
    return undefined;
  }
}

function openAt(path: string, key: string, own?: Start): Open {
  const file = openFile(path, own);
  const { size } = file.statSync();
  return { key, file, at: size, hash: size === 0 ? sha256() : undefined };
}

async function write(open: Open, data: Uint8Array): Promise<void> {
  if (data.length === 0) return;
  await open.file.seek(open.at, Deno.SeekMode.Start);
  for (let done = 0; done < data.length;) done += await open.file.write(data.subarray(done));
  open.at += data.length;
  open.hash?.update(data);
}

function isNoSpace(error: unknown): boolean {
  return /os error (28|122)\b/.test(String(error));
}

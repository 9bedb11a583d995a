/** Copies files that may be changed, replaced by a worker, or removed meanwhile; holes stay holes. */
import { Buffer } from "node:buffer";
import { sha256 } from "../../base/node_modules.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere, parentOf, removeIfThere } from "../../os/files/files.ts";
import { explainPath } from "../../permissions/missing.ts";
import { openRegular, type RegularFile } from "../../os/files/untrusted.ts";

/** The copy while it is being written. A suffix would make the longest names too long. */
const UNFINISHED = ".mosaic-new";
/** Bytes of the longest path that the kernel takes. */
const MAX_PATH_BYTES = 4095;
const CHUNK_BYTES = 64 << 10;
const ZEROS = new Uint8Array(CHUNK_BYTES);

/** Tokens and keys: who reads one may act as its owner. */
export function isSecret(path: string): boolean {
  return /^trainer\/(tokens\.json|webhook\.secret)$|(^|\/)\.mosaic\/(session-token|proxy-\d+\.json)$/.test(path);
}

/** A worker can nest directories so deep that no path reaches what is in them, here or below the copy. */
export function isTooLong(path: string): boolean {
  return Buffer.byteLength(path) + UNFINISHED.length > MAX_PATH_BYTES;
}

/** Files in a run's `.mosaic` that describe processes on this host, and are wrong on any other. */
export function isOfThisHost(path: string): boolean {
  return /(^|\/)\.mosaic\/(worker-\d+\.json|proxy-\d+\.lock|stdin-\d+\.fifo)$/.test(path);
}

/** @throws MosaicError `invalid_argument` for a path that cannot be written to, otherwise `unavailable`; with the path */
export function writing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const known = explainPath(error, path);
    if (known instanceof MosaicError && known.code === "invalid_argument") throw known;
    if (error instanceof MosaicError) throw error;
    const full = /No space left|disk is full|quota/i.test(messageOf(error));
    throw new MosaicError("unavailable", `cannot write ${path}: ${full ? "the disk is full" : messageOf(error)}`, {
      ...(full ? { hint: "Free space there, or name a directory on a larger disk." } : {}),
      cause: error,
    });
  }
}

/**
 * Makes `to` equal to `from`, unless size, time and mode show that it is already.
 * @param below the directory in which `from` may be changed by others
 * @returns bytes written; `undefined` if there is nothing to copy any more
 * @throws MosaicError `permission_denied` (no regular file), `unavailable`, also if the copy reads differently
 */
export function copyIfChanged(from: string, to: string, below: string): number | undefined {
  using source = openRegular(from, below);
  if (source === undefined) return undefined;
  const { size, mtimeMs, mode: fullMode } = source.stat();
  const mode = fullMode & 0o777;
  const mtime = new Date(Math.floor(mtimeMs));
  const existing = infoIfThere(to);
  const same = existing?.isFile === true && existing.size === size && existing.mtime?.getTime() === mtime.getTime();
  if (same && ((existing.mode ?? 0) & 0o777) === mode) return 0;
  return writing(to, () => {
    if (existing !== undefined && !existing.isFile) Deno.removeSync(to, { recursive: true });
    const unfinished = `${parentOf(to)}/${UNFINISHED}`;
    removeIfThere(unfinished);
    const written = copy(source, unfinished, size);
    if (hashOf(unfinished) !== written) {
      throw new MosaicError("unavailable", `${to} does not read as it was written`, {
        hint: "Read the kernel's log for errors of that disk.",
      });
    }
    Deno.chmodSync(unfinished, mode);
    Deno.utimeSync(unfinished, mtime, mtime);
    Deno.renameSync(unfinished, to);
    return size;
  });
}

/** @returns the hash of what was written */
function copy(source: RegularFile, to: string, size: number): string {
  const hash = sha256();
  const bytes = new Uint8Array(CHUNK_BYTES);
  using file = Deno.openSync(to, { write: true, createNew: true, mode: 0o600 });
  let at = 0;
  while (at < size) {
    const chunk = bytes.subarray(0, Math.min(CHUNK_BYTES, size - at));
    // Truncated meanwhile: missing bytes are copied as a hole.
    chunk.fill(0, source.readSync(at, chunk));
    hash.update(chunk);
    if (isZero(chunk)) file.seekSync(chunk.length, Deno.SeekMode.Current);
    else for (let done = 0; done < chunk.length;) done += file.writeSync(chunk.subarray(done));
    at += chunk.length;
  }
  file.truncateSync(size);
  file.syncSync();
  return hash.digest("hex");
}

function isZero(chunk: Uint8Array): boolean {
  return chunk[0] === 0 && Buffer.compare(chunk, ZEROS.subarray(0, chunk.length)) === 0;
}

function hashOf(path: string): string {
  const hash = sha256();
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(CHUNK_BYTES);
  for (let n = file.readSync(bytes); n !== null; n = file.readSync(bytes)) hash.update(bytes.subarray(0, n));
  return hash.digest("hex");
}

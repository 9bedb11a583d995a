/**
 * Copies files that may be changed, replaced by a worker, or removed meanwhile; holes stay holes.
 */
import { Buffer } from "node:buffer";
import { sha256 } from "../../base/node_modules.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoIfThere, removeIfThere } from "../../os/files/files.ts";
import { explainPath } from "../../permissions/missing.ts";
import { openRegular, type RegularFile } from "../../os/files/untrusted.ts";
import { shellOutput } from "../../os/processes/shell.ts";

/** Bytes of the longest path that the kernel takes. */
const MAX_PATH_BYTES = 4095;
const CHUNK_BYTES = 64 << 10;
const ZEROS = new Uint8Array(CHUNK_BYTES);
/** Fewer bytes in holes are read as they are. */
const SPARSE_BYTES = 16 << 20;
/**
 * Prints where data begins and ends in an open file of process $0; in a file of very many parts,
 * the rest is one.
 */
const DATA =
  `exec perl -e 'open F, "<", "/proc/$ARGV[0]/fd/$ARGV[1]" or exit 1; my ($size, $at, $n) = ($ARGV[2], 0, 0);
while ($at < $size) { my $from = sysseek(F, $at, 3); last unless defined $from; my $to = sysseek(F, $from, 4);
exit 1 unless defined $to; $to = $size if ++$n > 10000; printf "%d %d\\n", $from, $to; $at = $to; }
print "end\\n"' "$0" "$1" "$2"`;

/** Tokens and keys: who reads one may act as its owner. */
export function isSecret(path: string): boolean {
  return /^trainer\/(tokens\.json|webhook\.secret)$|(^|\/)\.mosaic\/(session-token|proxy-\d+\.json)$/
    .test(path);
}

/**
 * A worker can nest directories so deep that no path reaches what is in them, here or below the
 * copy.
 */
export function isTooLong(path: string): boolean {
  return Buffer.byteLength(path) > MAX_PATH_BYTES;
}

/** Files in a run's `.mosaic` that describe processes on this host, and are wrong on any other. */
export function isOfThisHost(path: string): boolean {
  return /(^|\/)\.mosaic\/(worker-\d+\.json|proxy-\d+\.lock|stdin-\d+\.fifo)$/.test(path);
}

/**
 * @throws MosaicError `invalid_argument` for a path that cannot be written to, otherwise
 * `unavailable`; with the path
 */
export function writing<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const known = explainPath(error, path);
    if (known instanceof MosaicError && known.code === "invalid_argument") throw known;
    if (error instanceof MosaicError) throw error;
    const full = /No space left|disk is full|quota/i.test(messageOf(error));
    throw new MosaicError(
      "unavailable",
      `cannot write ${path}: ${full ? "the disk is full" : messageOf(error)}`,
      {
        ...(full ? { hint: "Free space there, or name a directory on a larger disk." } : {}),
        cause: error,
      },
    );
  }
}

/**
 * Makes `to` equal to `from`, unless size, time and mode show that it is already.
 * @param below the directory in which `from` may be changed by others
 * @param unfinished the copy while it is being written, on the same disk; no name that a worker can
 * give a file
 * @returns bytes written; `undefined` if there is nothing to copy any more
 * @throws MosaicError `permission_denied` (no regular file), `unavailable`, also if the copy reads
 * differently
 */
export function copyIfChanged(
  from: string,
  to: string,
  below: string,
  unfinished: string,
): number | undefined {
  using source = openRegular(from, below);
  if (source === undefined) return undefined;
  const { size, blocks, mtimeMs, mode: fullMode } = source.stat();
  const mode = fullMode & 0o777;
  const mtime = new Date(Math.floor(mtimeMs));
  const existing = infoIfThere(to);
  const same = existing?.isFile === true && existing.size === size &&
    existing.mtime?.getTime() === mtime.getTime();
  if (same && ((existing.mode ?? 0) & 0o777) === mode) return 0;
  return writing(to, () => {
    if (existing !== undefined && !existing.isFile) Deno.removeSync(to, { recursive: true });
    removeIfThere(unfinished);
    const parts = size - blocks * 512 > SPARSE_BYTES ? dataOf(source, size) : [[0, size] as const];
    const written = copy(source, unfinished, size, parts);
    if (hashOf(unfinished, parts) !== written || infoIfThere(unfinished)?.size !== size) {
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

type Part = readonly [from: number, to: number];

/**
 * What is no hole. Reading holes would take minutes for hundreds of gigabytes, which cost a worker
 * nothing to make.
 */
function dataOf(source: RegularFile, size: number): readonly Part[] {
  const lines =
    shellOutput(DATA, String(Deno.pid), String(source.descriptor), String(size))?.trim().split(
      "\n",
    ) ?? [];
  // No perl, no /proc, or a file system that does not say it.
  if (lines.pop() !== "end") return [[0, size]];
  return lines.map((line) => line.split(" ").map(Number)).map(([from, to]) =>
    [from!, Math.min(to!, size)] as const
  );
}

/** @returns the hash of what was written */
function copy(source: RegularFile, to: string, size: number, parts: readonly Part[]): string {
  const hash = sha256();
  const bytes = new Uint8Array(CHUNK_BYTES);
  using file = Deno.openSync(to, { write: true, createNew: true, mode: 0o600 });
  for (const [from, end] of parts) {
    file.seekSync(from, Deno.SeekMode.Start);
    for (let at = from; at < end;) {
      const chunk = bytes.subarray(0, Math.min(CHUNK_BYTES, end - at));
      // Truncated meanwhile: missing bytes are copied as a hole.
      chunk.fill(0, source.readSync(at, chunk));
      hash.update(chunk);
      if (isZero(chunk)) file.seekSync(chunk.length, Deno.SeekMode.Current);
      else for (let done = 0; done < chunk.length;) done += file.writeSync(chunk.subarray(done));
      at += chunk.length;
    }
  }
  file.truncateSync(size);
  file.syncSync();
  return hash.digest("hex");
}

function isZero(chunk: Uint8Array): boolean {
  return chunk[0] === 0 && Buffer.compare(chunk, ZEROS.subarray(0, chunk.length)) === 0;
}

function hashOf(path: string, parts: readonly Part[]): string {
  const hash = sha256();
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(CHUNK_BYTES);
  for (const [from, end] of parts) {
    file.seekSync(from, Deno.SeekMode.Start);
    for (let at = from; at < end;) {
      const read = file.readSync(bytes.subarray(0, Math.min(CHUNK_BYTES, end - at)));
      if (read === null) return "shorter";
      hash.update(bytes.subarray(0, read));
      at += read;
    }
  }
  return hash.digest("hex");
}

/**
 * The files of a run's directory, read without ever following a link: the worker owns this
 * directory and may put anything there. mosaic ignores everything that is not a plain file in a
 * plain directory.
 */
import { sha256 } from "../../base/node_modules.ts";
import { isOfRun } from "../../os/files/run_owner.ts";
import { entriesLater, infoOf, openRegular, type RegularFile } from "../../os/files/untrusted.ts";

/** `RunFiles.control`. */
const OWN_DIRECTORY = ".mosaic";

export interface FoundFile {
  /** Relative to the run's directory, with "/". */
  path: string;
  bytes: number;
  /** Unix milliseconds. */
  changedAt: number;
}

export interface WalkLimits {
  maxFiles: number;
  maxDepth: number;
}

/**
 * A relative path's parts; undefined if it is absolute, empty, leads outside, or to mosaic's own
 * records and tokens.
 */
function partsOf(path: string): string[] | undefined {
  if (path.startsWith("/") || path.includes("\0")) return undefined;
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.length === 0 || parts.includes("..") || parts[0] === OWN_DIRECTORY
    ? undefined
    : parts;
}

/**
 * `path` (absolute or relative, as a worker wrote it) relative to `directory`; undefined if it is
 * outside.
 */
export function relativeWithin(directory: string, path: string): string | undefined {
  const inside = path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path;
  return partsOf(inside)?.join("/");
}

/**
 * What is at a relative path whose directories are all real ones; undefined if there is nothing
 * that mosaic accepts.
 */
function statWithin(directory: string, path: string): Deno.FileInfo | undefined {
  const parts = partsOf(path);
  if (parts === undefined) return undefined;
  try {
    return infoOf(`${directory}/${parts.join("/")}`, directory);
  } catch {
    return undefined;
  }
}

function found(path: string, info: Deno.FileInfo): FoundFile {
  return { path, bytes: info.size, changedAt: Math.trunc(info.mtime?.getTime() ?? 0) };
}

/**
 * The plain files at `path` below `directory`: the file itself, or everything below a directory.
 * Names that begin with a dot or end like a file that is still being written are left out.
 */
export async function filesAt(
  directory: string,
  path: string,
  limits: WalkLimits,
): Promise<FoundFile[]> {
  const info = statWithin(directory, path);
  if (info === undefined) return [];
  if (info.isFile) return [found(path, info)];
  const files: FoundFile[] = [];
  if (info.isDirectory) await walk(directory, path, limits, limits.maxDepth, files);
  return files;
}

async function walk(
  directory: string,
  path: string,
  limits: WalkLimits,
  depth: number,
  files: FoundFile[],
) {
  let entries: Deno.DirEntry[];
  try {
    entries = await entriesLater(`${directory}/${path}`, directory);
  } catch {
    // Removed meanwhile, or not readable.
    return;
  }
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (files.length >= limits.maxFiles) return;
    if (entry.name.startsWith(".") || /\.(tmp|part|partial|incomplete)$/.test(entry.name)) continue;
    const inner = `${path}/${entry.name}`;
    if (entry.isDirectory && depth > 1) {
      await walk(directory, inner, limits, depth - 1, files);
    } else if (entry.isFile) {
      const info = statWithin(directory, inner);
      if (info?.isFile) files.push(found(inner, info));
    }
  }
}

/**
 * Bytes read at a time while hashing: some tenths of a millisecond of work, so that nothing else
 * waits.
 */
const CHUNK_BYTES = 256 * 1024;

/**
 * Hex SHA-256 of a file that matches `file` before and after; undefined if it was changed, removed,
 * or is elsewhere. Reads in small chunks and yields to other work in between.
 */
export async function hashFile(
  directory: string,
  file: FoundFile,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (partsOf(file.path) === undefined) return undefined;
  let handle: RegularFile | undefined;
  try {
    handle = openRegular(`${directory}/${file.path}`, directory);
    if (handle === undefined || !isOfRun(handle, `${directory}/${file.path}`, directory)) {
      return undefined;
    }
    if (!same(file, handle.stat())) return undefined;
    const hash = sha256();
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (let position = 0; position < file.bytes;) {
      if (signal.aborted) return undefined;
      const n = await handle.read(position, chunk);
      if (n === 0) return undefined;
      hash.update(chunk.subarray(0, n));
      position += n;
    }
    return same(file, handle.stat()) ? hash.digest("hex") : undefined;
  } catch {
    return undefined;
  } finally {
    handle?.close();
  }
}

function same(file: FoundFile, now: { size: number; mtimeMs: number }): boolean {
  return now.size === file.bytes && Math.trunc(now.mtimeMs) === file.changedAt;
}

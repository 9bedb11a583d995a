/** Size and removal of a run's files. Links are counted and removed as links, never followed. */
import { relativeWithin } from "../artifacts/run_directory.ts";
import { BASE_DIRS, type Layout } from "../../base/layout.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { entriesLater, entriesOf, infoOf } from "../../os/files/untrusted.ts";
import { makeRemovable, removeTree, renameFile } from "../../os/files/untrusted_changes.ts";

/** Name prefix of directories to be removed from a run's directory. */
const ASIDE = ".dropped-";

/** Run ids become parts of paths. */
function checked(runId: string): string {
  if (!/^[0-9A-Za-z]{1,64}$/.test(runId)) {
    throw new MosaicError(
      "invalid_argument",
      `${JSON.stringify(runId.slice(0, 100))} is not a run id`,
    );
  }
  return runId;
}

/**
 * Everything on disk that belongs to a run: its directory under each base, its config, its workers'
 * configs.
 */
export function pathsOfRun(layout: Layout, runId: string): string[] {
  const id = checked(runId);
  const paths = BASE_DIRS.map((base) => layout.runDir(base, id));
  let names: string[] = [];
  try {
    names = entriesOf(layout.configs, layout.configs).map((entry) => entry.name);
  } catch {
    // No directory, no configs.
  }
  for (const name of names) if (isConfigOf(id, name)) paths.push(`${layout.configs}/${name}`);
  return paths;
}

/** Whether a file of this name in the directory of configs is the run's. */
export function isConfigOf(runId: string, name: string): boolean {
  return name === `config-${runId}.json` || name === `worker-${runId}.json` ||
    name.startsWith(`worker-${runId}-`);
}

/** Files whose sizes are read before yielding: about 2 ms. */
const SIZES_A_TURN = 256;

/** A file's length, or its disk blocks if they are less: a packed journal is mostly a hole. */
function diskBytes({ blocks, size }: Deno.FileInfo): number {
  return blocks === null ? size : Math.min(size, blocks * 512);
}

/** Bytes of the files at and below a path; 0 when there is nothing. */
async function bytesAt(path: string): Promise<number> {
  const info = infoOf(path);
  if (info === undefined) return 0;
  return info.isDirectory ? await bytesBelow(path) : diskBytes(info);
}

async function bytesBelow(directory: string, below = directory): Promise<number> {
  let bytes = 0;
  await eachIn(directory, (_, size) => void (bytes += size), below);
  return bytes;
}

/**
 * Calls `found` for each entry of a directory with the bytes at and below it. Reads directories
 * asynchronously; reads sizes synchronously in chunks, which takes a tenth of the time of one
 * promise per file.
 */
export async function eachIn(
  directory: string,
  found: (name: string, bytes: number) => void,
  below = directory,
): Promise<void> {
  let measured = 0;
  try {
    for (const { name, isDirectory } of await entriesLater(directory, below)) {
      const path = `${directory}/${name}`;
      found(name, isDirectory ? await bytesBelow(path, below) : sizeOf(path));
      if (++measured % SIZES_A_TURN === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    }
  } catch {
    // Missing, not readable, or removed in the meantime: count what was readable.
  }
}

function sizeOf(path: string): number {
  try {
    return diskBytes(Deno.lstatSync(path));
  } catch {
    return 0;
  }
}

/**
 * Removes a run's files. Missing files are no error, so it can be repeated after a crash.
 * @throws MosaicError `unavailable` naming the path that could not be removed.
 */
export async function removeRunFiles(
  layout: Layout,
  runId: string,
): Promise<{ freedBytes: number }> {
  let freedBytes = 0;
  for (const path of pathsOfRun(layout, runId)) freedBytes += await removeAt(path);
  return { freedBytes };
}

async function removeAt(path: string): Promise<number> {
  const bytes = await bytesAt(path);
  try {
    await removeTree(path);
    return bytes;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return bytes;
    if (!(error instanceof Deno.errors.PermissionDenied) || infoOf(path)?.uid === 0) {
      throw notRemoved(path, error);
    }
  }
  // A worker may have removed the write permission of its own directories. Of root's, no permission
  // can be missing.
  try {
    await makeRemovable(path, path);
    await removeTree(path);
    return bytes;
  } catch (error) {
    throw notRemoved(path, error);
  }
}

function notRemoved(path: string, error: unknown): MosaicError {
  return new MosaicError("unavailable", `cannot remove ${path}: ${messageOf(error)}`, {
    hint: "Check its owner and mode, then delete the run again.",
    cause: error,
  });
}

/**
 * Directories to remove when a run has succeeded or was cancelled. A failed run keeps all for its
 * next attempt.
 */
export function droppedDirectories(
  artifacts: { dropCheckpoints: boolean; persistLogs: boolean },
): string[] {
  return [
    ...(artifacts.dropCheckpoints ? ["checkpoints"] : []),
    ...(artifacts.persistLogs ? [] : ["logs"]),
  ];
}

/**
 * Removes these directories of a run. Call it when everything is stored, in the same turn as the
 * check that no other attempt has begun.
 */
export async function removeDropped(
  runDirectory: string,
  unkept: readonly string[],
): Promise<{ freedBytes: number }> {
  for (const name of unkept) renameForRemoval(runDirectory, name);
  let freedBytes = 0;
  // Including directories left by a daemon that died while it removed them.
  for (const { name } of entriesOf(runDirectory, runDirectory)) {
    if (name.startsWith(ASIDE)) freedBytes += await removeAt(`${runDirectory}/${name}`);
  }
  return { freedBytes };
}

/**
 * Atomic, so that the next attempt can create a directory of that name while the old one is
 * removed.
 */
function renameForRemoval(runDirectory: string, name: string): void {
  try {
    renameFile(`${runDirectory}/${name}`, `${runDirectory}/${ASIDE}${crypto.randomUUID()}`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Whether `removeDropped` removes this path, given as the worker wrote it: a relative one is below
 * its working directory, not the run's.
 */
export function isDropped(runDirectory: string, path: string): boolean {
  return path.startsWith("/") &&
    relativeWithin(runDirectory, path)?.startsWith("checkpoints/") === true;
}

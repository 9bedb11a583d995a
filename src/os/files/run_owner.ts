/**
 * Whether a file in a run's directory is the run's. A worker with a user of its own can move files
 * of others there, from any directory that it may write to, or link them; a daemon of root would
 * open them for everybody who may read runs.
 */
import { MosaicError } from "../../base/errors.ts";
import { infoIfThere, parentOf } from "./files.ts";
import { groupOfWorker } from "../rights/worker_user.ts";

/**
 * Made by giveRunTo in mosaic's own directory, where no worker changes anything: its owner is the
 * worker's user.
 */
const USER_FILE = ".mosaic/user";

/** An open file, or what was found out about it. */
type Opened = { descriptor: number } | { uid: number; gid: number; mode: number };

/** @param path of the opened file */
export function isOfRun(file: Opened, path: string, runDirectory: string): boolean {
  const group = groupOfWorker(runDirectory);
  // The worker has the daemon's own rights.
  if (group === undefined) return true;
  const { uid, gid, mode } = "descriptor" in file
    ? process.getBuiltinModule("node:fs").fstatSync(file.descriptor)
    : file;
  const user = infoIfThere(`${runDirectory}/${USER_FILE}`)?.uid;
  if (uid === user) return true;
  // The worker may read it anyway; or it has no such file, from an earlier version.
  if (gid === group && (user === undefined || (mode & 0o040) !== 0)) return true;
  // mosaic's own: nobody else writes to the directory.
  if (!path.startsWith(`${runDirectory}/`)) return false;
  const parent = infoIfThere(parentOf(path));
  return uid === 0 && parent?.uid === 0 && ((parent.mode ?? 0) & 0o022) === 0;
}

/** Closes the file and throws MosaicError `permission_denied` unless it is the run's. */
export function requireOfRun(
  file: Opened & { close(): void },
  path: string,
  runDirectory: string,
): void {
  if (isOfRun(file, path, runDirectory)) return;
  file.close();
  throw new MosaicError(
    "permission_denied",
    `"${path}" does not belong to the user that the run's worker has`,
    {
      hint: "The daemon may read what that user may not; copy the file on the host itself.",
    },
  );
}

/**
 * Whether a file outside of the run's directory is its worker's own, which it could as well have
 * put inside.
 */
export function isWorkersOwn(file: { uid: number }, runDirectory: string): boolean {
  const users = [`${runDirectory}/${USER_FILE}`, runDirectory].map((path) =>
    infoIfThere(path)?.uid ?? undefined
  );
  return file.uid === users.find((uid) => uid !== undefined);
}

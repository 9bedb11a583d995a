/** What the files of an attempt say about its processes (src/base/layout.ts, RunFiles). */
import { MosaicError } from "../../../base/errors.ts";
import type { RunFiles } from "../../../base/layout.ts";
import { entriesOf, infoOf, readRecord } from "../../../os/files/untrusted.ts";
import {
  createFile,
  lockFile,
  quarantineFile,
  removeRegular,
} from "../../../os/files/untrusted_changes.ts";
import type { ProcessRef } from "../../../os/processes/identity.ts";
import { exitFileOf } from "../../../proxy/state/exit_place.ts";
import { workerRecordIn } from "../../../journal/worker_record.ts";

/** A JSON object; undefined if there is no regular file, or (torn by a crash) no object in it. */
function readObject(path: string): Record<string, unknown> | undefined {
  const text = readRecord(path);
  if (text === undefined) return undefined;
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The leader of the worker's process group, dead or alive. */
export function workerOf(files: RunFiles, attempt: number): ProcessRef | undefined {
  return workerRecordIn(readRecord(files.workerFile(attempt)))?.leader;
}

/** The worker's exit, once it is recorded on disk. */
export function exitOf(
  files: RunFiles,
  attempt: number,
): { code: number | null; signal: string } | undefined {
  const file = readObject(exitFileOf(files, attempt, readRecord(files.workerFile(attempt))));
  if (file === undefined) return undefined;
  const code = typeof file.code === "number" ? file.code : null;
  return { code, signal: typeof file.signal === "string" ? file.signal : "" };
}

/** Whether a worker of this attempt was ever started. */
export function workerStarted(files: RunFiles, attempt: number): boolean {
  return readRecord(files.workerFile(attempt)) !== undefined ||
    readRecord(files.exitFile(attempt)) !== undefined;
}

/**
 * Prevents any later start of a worker of this attempt: wrappers create the worker file
 * exclusively. @returns false if one was started already
 */
export function forbidWorker(files: RunFiles, attempt: number): boolean {
  // Anything but a regular file is no worker file and has no effect.
  quarantineFile(files.workerFile(attempt));
  try {
    createFile(files.workerFile(attempt)).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

/**
 * Removes what killed processes of an ended attempt have left half written: the wrapper's exit
 * record, and new versions of logs and records that were to replace others.
 */
export function removeUnfinished(files: RunFiles, attempt: number): void {
  const { directory, control, logs } = files;
  const [log, exit] = [files.logOf(attempt), files.exitFile(attempt)].map((path) =>
    path.slice(path.lastIndexOf("/") + 1)
  );
  for (
    const [place, isOurs] of [
      [
        control,
        (name: string) => name.startsWith(`${exit}.`) || RECORD.exec(name)?.[1] === String(attempt),
      ],
      [logs, (name: string) => LOG.exec(name)?.[1] === log],
    ] as const
  ) {
    for (const name of namesIn(place, directory)) {
      if (!name.endsWith(".tmp") || !isOurs(name)) continue;
      try {
        removeRegular(`${place}/${name}`, directory);
      } catch (error) {
        // A worker has put something else there.
        if (!(error instanceof MosaicError)) throw error;
      }
    }
  }
}

/** Unfinished versions: of `KIND-ATTEMPT.json` (writeRecord), and of a log or its packed part. */
const RECORD = /^[a-z]+-(\d+)\.json\.\d+\.[0-9a-f]{8}\.tmp$/;
const LOG = /^(.*)\.std(?:out|err)\.log\.(?:zst\.thin|[0-9a-f]{8})\.tmp$/;

function namesIn(directory: string, below: string): string[] {
  try {
    return entriesOf(directory, below).filter(({ isFile }) => isFile).map(({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return [];
    }
    throw error;
  }
}

/**
 * Whether a process serves the attempt. Do not call it while a proxy of ours may be starting: the
 * check itself holds the lock for a moment.
 */
export function proxyLockHeld(files: RunFiles, attempt: number): boolean {
  const path = files.proxyLock(attempt);
  if (infoOf(path)?.isFile !== true) return false;
  const lock = lockFile(path);
  lock?.close();
  return lock === undefined;
}

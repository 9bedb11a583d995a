/** What the files of an attempt say about its processes (src/base/layout.ts, RunFiles). */
import type { RunFiles } from "../../../base/layout.ts";
import { infoOf, readRecord } from "../../../os/untrusted.ts";
import { createFile, lockFile, quarantineFile } from "../../../os/untrusted_changes.ts";
import type { ProcessRef } from "../../../os/identity.ts";
import { exitFileOf } from "../../../proxy/exit_place.ts";

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
  const file = readObject(files.workerFile(attempt));
  if (typeof file?.pid !== "number" || typeof file.identity !== "string") return undefined;
  return { pid: file.pid, identity: file.identity };
}

/** The worker's exit, once it is recorded on disk. */
export function exitOf(files: RunFiles, attempt: number): { code: number | null; signal: string } | undefined {
  const file = readObject(exitFileOf(files, attempt, readRecord(files.workerFile(attempt))));
  if (file === undefined) return undefined;
  const code = typeof file.code === "number" ? file.code : null;
  return { code, signal: typeof file.signal === "string" ? file.signal : "" };
}

/** Whether a worker of this attempt was ever started. */
export function workerStarted(files: RunFiles, attempt: number): boolean {
  return readRecord(files.workerFile(attempt)) !== undefined || readRecord(files.exitFile(attempt)) !== undefined;
}

/**
 * Prevents any later start of a worker of this attempt: wrappers create the worker file exclusively. @returns false if one
 * was started already
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
 * Whether a process serves the attempt. Do not call it while a proxy of ours may be starting: the check itself holds the
 * lock for a moment.
 */
export function proxyLockHeld(files: RunFiles, attempt: number): boolean {
  const path = files.proxyLock(attempt);
  if (infoOf(path)?.isFile !== true) return false;
  const lock = lockFile(path);
  lock?.close();
  return lock === undefined;
}

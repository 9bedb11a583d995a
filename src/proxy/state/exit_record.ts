/** The worker's exit, recorded on disk (`RunFiles.exitFile`) before it is reported. */
import type { RunFiles } from "../../base/layout.ts";
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import { writeRecord } from "../../os/files/untrusted_changes.ts";
import { exitFileOf } from "./exit_place.ts";

export interface WorkerExit {
  /** null after a signal. */
  code: number | null;
  /** Such as "SIGKILL"; "" if the worker exited by itself. */
  signal: string;
  /** ISO time; null if the wrapper could not determine it. */
  endedAt: string | null;
  /** Why the program could not be started; "" if it was. */
  spawnError: string;
}

function parseExit(text: string | undefined): WorkerExit | undefined {
  if (text === undefined) return undefined;
  try {
    const record = JSON.parse(text) as Record<string, unknown>;
    return {
      code: typeof record.code === "number" ? record.code : null,
      signal: typeof record.signal === "string" ? record.signal : "",
      endedAt: typeof record.ended_at === "string" ? record.ended_at : null,
      spawnError: typeof record.spawn_error === "string" ? record.spawn_error : "",
    };
  } catch {
    // The wrapper was killed while it wrote.
    return undefined;
  }
}

/** The attempt's exit; undefined if there is none yet. */
export function readExit(files: RunFiles, attempt: number): WorkerExit | undefined {
  return parseExit(readRecordInProxy(placeOf(files, attempt)));
}

/**
 * A record that the wrapper had written but not renamed before it was killed: as valid as a
 * finished one.
 */
export function readUnfinishedExit(files: RunFiles, attempt: number): WorkerExit | undefined {
  return parseExit(readRecordInProxy(`${placeOf(files, attempt)}.tmp`));
}

function placeOf(files: RunFiles, attempt: number): string {
  return exitFileOf(files, attempt, readRecordInProxy(files.workerFile(attempt)));
}

export function writeExit(files: RunFiles, attempt: number, exit: WorkerExit): void {
  const { code, signal, endedAt, spawnError } = exit;
  const record = {
    code,
    signal,
    ended_at: endedAt,
    ...(spawnError === "" ? {} : { spawn_error: spawnError }),
  };
  writeRecord(files.exitFile(attempt), JSON.stringify(record) + "\n");
}

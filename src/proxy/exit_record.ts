/** The worker's exit as a fact on disk (`RunFiles.exitFile`), written before anybody is told. */
import type { RunFiles } from "../base/layout.ts";
import { readRecordInProxy, writeRecord } from "../os/untrusted.ts";
import { exitFileOf } from "./exit_place.ts";

export interface WorkerExit {
  /** null after a signal. */
  code: number | null;
  /** "SIGKILL" and the like; "" when the worker ended by itself. */
  signal: string;
  /** ISO time, null when the wrapper could not tell. */
  endedAt: string | null;
  /** Why the program could not be started; "" when it was. */
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
    // A wrapper that was killed while it wrote.
    return undefined;
  }
}

/** The attempt's exit; undefined while there is none. */
export function readExit(files: RunFiles, attempt: number): WorkerExit | undefined {
  return parseExit(readRecordInProxy(placeOf(files, attempt)));
}

/** What a wrapper had written and could not rename before it was killed: as true as the finished record. */
export function readUnfinishedExit(files: RunFiles, attempt: number): WorkerExit | undefined {
  return parseExit(readRecordInProxy(`${placeOf(files, attempt)}.tmp`));
}

function placeOf(files: RunFiles, attempt: number): string {
  return exitFileOf(files, attempt, readRecordInProxy(files.workerFile(attempt)));
}

export function writeExit(files: RunFiles, attempt: number, exit: WorkerExit): void {
  const { code, signal, endedAt, spawnError } = exit;
  const record = { code, signal, ended_at: endedAt, ...(spawnError === "" ? {} : { spawn_error: spawnError }) };
  writeRecord(files.exitFile(attempt), JSON.stringify(record) + "\n");
}

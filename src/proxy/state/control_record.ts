/** Desired control as a file. It applies while the daemon is away, and the next proxy reads it. */
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import { removeFile, writeRecord } from "../../os/files/untrusted_changes.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { ControlRecord } from "./events_and_effects.ts";

/** The record, and its path in earlier versions. */
function pathsOf({ control }: RunFiles, attempt: number): [string, string] {
  return [`${control}/control-${attempt}.json`, `${control}/wish-${attempt}.json`];
}

/** The last proxy's record; nothing desired if there is no readable one. */
export function readControlRecord(files: RunFiles, attempt: number): ControlRecord {
  let record: Partial<ControlRecord> = {};
  try {
    const [path, older] = pathsOf(files, attempt);
    record = JSON.parse(readRecordInProxy(path) ?? readRecordInProxy(older) ?? "{}");
  } catch {
    // Torn or replaced: the daemon's welcome brings the desired control.
  }
  const { paused, maxRateHz, pausedBy } = record;
  return {
    paused: paused === true,
    maxRateHz: typeof maxRateHz === "number" ? maxRateHz : 0,
    pausedBy: pausedBy === "message" || pausedBy === "signal" ? pausedBy : "",
  };
}

export function writeControlRecord(files: RunFiles, attempt: number, record: ControlRecord): void {
  const { paused, maxRateHz, pausedBy } = record;
  const [path, older] = pathsOf(files, attempt);
  if (!paused && maxRateHz === 0 && pausedBy === "") removeFile(path);
  else writeRecord(path, JSON.stringify({ paused, maxRateHz, pausedBy }));
  removeFile(older);
}

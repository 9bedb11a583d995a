/** Desired control as a file, which holds while the daemon is away and under the next proxy. */
import { removeIfThere } from "../os/files.ts";
import { readRecordInProxy, writeRecord } from "../os/untrusted.ts";
import type { RunFiles } from "../base/layout.ts";
import type { ControlRecord } from "./events.ts";

/** Its name is that of earlier versions, whose records it must find. */
function pathOf(files: RunFiles, attempt: number): string {
  return `${files.control}/wish-${attempt}.json`;
}

/** What the last proxy wrote; nothing desired where it wrote nothing that can be read. */
export function readControlRecord(files: RunFiles, attempt: number): ControlRecord {
  let record: Partial<ControlRecord> = {};
  try {
    record = JSON.parse(readRecordInProxy(pathOf(files, attempt)) ?? "{}");
  } catch {
    // Torn or replaced: the daemon's welcome says what is desired.
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
  const path = pathOf(files, attempt);
  if (!paused && maxRateHz === 0 && pausedBy === "") removeIfThere(path);
  else writeRecord(path, JSON.stringify({ paused, maxRateHz, pausedBy }));
}

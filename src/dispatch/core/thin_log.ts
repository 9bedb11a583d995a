/**
 * Packs the logs of an ended attempt if its proxy was killed before it did, and thins its packed
 * log: steps that are stored in telemetry need no text.
 */
import { messageOf } from "../../base/errors.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/time/sleep.ts";
import { PackedLog } from "../../journal/packed_log.ts";
import { rendered, stepsOf, StepsOfLog, thinned } from "../../journal/thin_log.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import { JournalFile } from "../../journal/journal_file.ts";
import { packEndedLog } from "../../journal/pack_journal.ts";
import { proxyLockHeld } from "../launch/local/attempt_files.ts";

/** The proxy packs the log when the attempt has ended. */
const PROXY_MS = { longest: 60_000, between: 200 };
/** Work takes at most a quarter of the daemon's time. */
const PAUSE_FACTOR = 3;

export interface ThinOptions {
  telemetry: TelemetryLog;
  log: Logger;
  runId: string;
  attempt: number;
  files: RunFiles;
  /** The caller waits for this to end. */
  isStopped: () => boolean;
}

/**
 * Waits for an ended attempt's proxy, which still works on its files. @returns false if it stays,
 * or the caller stops
 */
export async function proxyHasLeft(
  files: RunFiles,
  attempt: number,
  isStopped: () => boolean,
): Promise<boolean> {
  const deadline = performance.now() + PROXY_MS.longest;
  while (proxyLockHeld(files, attempt)) {
    if (isStopped() || performance.now() > deadline) return false;
    await sleep(PROXY_MS.between);
  }
  return true;
}

/** Call it when the proxy has left. */
export async function thinLog(
  { telemetry, log, runId, attempt, files, isStopped }: ThinOptions,
): Promise<void> {
  const journal = JournalFile.left(files, attempt);
  try {
    // This compares the file with its recorded beginning: no proxy may have noticed that it was
    // truncated.
    journal.reached(0);
    await packEndedLog(files.stdout(attempt), log, { journal, isStopped });
  } finally {
    journal.close();
  }
  await packEndedLog(files.stderr(attempt), log, { isStopped });
  if (isStopped()) return;
  const read = stepsOf(telemetry, runId);
  const steps = new StepsOfLog(read, attempt);
  let start = performance.now();
  const turn = async () => {
    await sleep(PAUSE_FACTOR * (performance.now() - start));
    if (isStopped()) throw new Error("the run is deleted, or the daemon ends");
    start = performance.now();
  };
  const thin = async (bytes: Uint8Array) => {
    await turn();
    const thin = await thinned(bytes, steps, turn);
    if (thin === undefined) return undefined;
    await turn();
    const again = rendered(thin, read);
    return again.length === bytes.length && again.every((byte, i) => byte === bytes[i])
      ? thin
      : undefined;
  };
  try {
    using packed = new PackedLog(files.stdout(attempt));
    const saved = await packed.thin(thin, () => telemetry.allInFile());
    if (saved > 0) log.info({ run_id: runId, attempt, saved_bytes: saved }, "log thinned");
  } catch (error) {
    if (!isStopped()) {
      log.warn({ run_id: runId, attempt, error: messageOf(error) }, "the log is not thinned");
    }
  }
}

/**
 * Stores what the journal of an ended attempt has after the stored position: no proxy could deliver
 * it (proxies kept dying), or a process that had left the worker's group printed it after the end
 * was reported.
 */
import type { RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { journalBatches, journalEnd, storeBatch } from "../../proxy/delivery/left_journal.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";

export interface FillOptions {
  telemetry: TelemetryLog;
  log: Logger;
  row: Pick<RunRow, "runId" | "agentId" | "workerId" | "attempt">;
  files: RunFiles;
  /** The caller waits for this to end. */
  isStopped: () => boolean;
}

/** @throws MosaicError while nothing can be stored, or if the journal cannot be read */
export async function fillFromJournal(
  { telemetry, log, row, files, isStopped }: FillOptions,
): Promise<void> {
  const { runId, attempt } = row;
  const from = telemetry.journalPosition(runId, attempt);
  const end = journalEnd(files, attempt);
  if (end <= from) return;
  // Without a position of its own an attempt with records would be stored twice: mosaic doctor
  // compares them.
  if (from === 0 && telemetry.summary(runId).attempt >= attempt) return;
  const { linearPattern } = await import("../../readers/schemas/patterns.ts");
  const clock = { now: Date.now() };
  const left = { attempt, end, final: true };
  for (const batch of journalBatches(telemetry, row, files, left, from, clock, linearPattern)) {
    if (isStopped()) return;
    storeBatch(telemetry, runId, attempt, batch);
    await yieldToOthers();
  }
  log.info(
    { run_id: runId, attempt, bytes: end - from },
    "stored what the journal had after the run's end",
  );
}

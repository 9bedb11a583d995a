/** Reads a run's logs (journals) and observed files again, and stores them. */
import { type Layout, RunFiles } from "../../base/layout.ts";
import {
  journalBatches,
  journalEnd,
  type ReadBatch,
  storeBatch,
} from "../../proxy/delivery/left_journal.ts";
import { linearPattern } from "../../readers/schemas/patterns.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { TelemetryStore } from "../../telemetry/store.ts";
import type { StoredRun } from "../../telemetry/commit/completeness.ts";
import { leftInFiles, readLater, type RunOnDisk } from "./observed_files.ts";
import type { KnownRun } from "./registry_state.ts";

/** Compared with the counters: metrics and series are derived from these. */
export const KINDS = ["steps", "episodes", "events"] as const;

export interface JournalEnd {
  attempt: number;
  /** The position of the journal's end. */
  end: number;
  stored: number;
}

export function runFiles(layout: Layout, run: KnownRun): RunFiles {
  return new RunFiles(layout.runDir(run.baseDir, run.runId), run.workerId);
}

/**
 * The ends of the existing logs of a run's attempts. The proxy of a live attempt delivers its log
 * itself.
 */
export function journalEnds(
  files: RunFiles,
  run: KnownRun,
  stored: StoredRun | undefined,
): JournalEnd[] {
  const ends: JournalEnd[] = [];
  for (let attempt = 1; attempt <= run.attempt; attempt++) {
    ends.push({
      attempt,
      end: journalEnd(files, attempt),
      stored: stored?.positions.get(attempt) ?? 0,
    });
  }
  return ends;
}

export function countsOf(
  store: TelemetryStore,
  runId: string,
): Record<typeof KINDS[number], number> {
  const { steps, episodes, events } = store.summary(runId);
  return { steps, episodes, events };
}

/** Stores what an ended attempt's files have after their cursors. */
export function storeFiles(
  store: TelemetryStore,
  target: string,
  known: RunOnDisk,
  attempt: number,
): void {
  const own = (of: number) =>
    (store.sourceCursors(target, of) ?? []).filter(({ serial }) => serial > 0);
  const later = readLater(known.run, attempt, own);
  for (const batch of leftInFiles(known, attempt, store.sourceCursors(target, attempt) ?? [])) {
    if (!later.has(batch.source!.name)) storeBatch(store, target, attempt, batch);
  }
}

/**
 * The journal of an attempt up to its known end: each reading of one repair must see the same
 * records.
 */
export function batchesOf(
  store: TelemetryStore,
  run: KnownRun,
  files: RunFiles,
  { attempt, end }: JournalEnd,
  from: number,
  clock: { now: number },
): Generator<ReadBatch> {
  const final = isEnded(run.state) || attempt < run.attempt;
  return journalBatches(store, run, files, { attempt, end, final }, from, clock, linearPattern);
}

/** Fills gaps of a run's stored telemetry from the run's own logs and observed files. */
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { TelemetryStore } from "../../telemetry/store.ts";
import type { StoredRun } from "../../telemetry/commit/completeness.ts";
import type { RunOnDisk } from "./observed_files.ts";
import { LOST_KIND, rebuild } from "./rebuild.ts";
import type { KnownRun } from "./registry_state.ts";
import { storeBatch } from "../../proxy/delivery/left_journal.ts";
import {
  batchesOf,
  countsOf,
  type JournalEnd,
  journalEnds,
  KINDS,
  storeFiles,
} from "./run_logs.ts";

/** Attempts of which the store has less than their log; without the live one, which has a proxy. */
export function lacking(run: KnownRun, ends: readonly JournalEnd[]): JournalEnd[] {
  return ends.filter(({ attempt, end, stored }) =>
    end > stored && (isEnded(run.state) || attempt < run.attempt)
  );
}

/**
 * Attempts with stored records but an unknown position: their logs would be stored a second time.
 */
export function unplaced(ends: readonly JournalEnd[], stored: StoredRun | undefined): JournalEnd[] {
  return ends.filter(({ attempt, end }) =>
    stored !== undefined && attempt <= stored.attempt && end > 0 && !stored.positions.has(attempt)
  );
}

/**
 * Stores what is missing. If only the ends of logs and files are missing, they are appended.
 * Otherwise a copy is built from all of them and from records that only the store has, and replaces
 * the run's telemetry: records keep their seqs and their stored times.
 * @param clock set to the time when an attempt's log was last written, for records without a time
 * @throws MosaicError `failed_precondition` if the logs do not contain what is missing; then
 * nothing has changed
 */
export function refill(
  store: TelemetryStore,
  known: RunOnDisk,
  stored: StoredRun | undefined,
  clock: { now: number },
): string {
  const { run, files } = known;
  const ends = journalEnds(files, run, stored);
  const newest = Math.max(0, ...ends.filter((one) => one.stored > 0).map(({ attempt }) => attempt));
  const missing = lacking(run, ends);
  const before = countsOf(store, run.runId);
  const isWhole = Object.keys(stored?.missing ?? {}).length === 0 &&
    unplaced(ends, stored).length === 0;
  let lost = 0;
  if (isWhole && missing.every(({ attempt }) => attempt >= newest)) {
    for (const { attempt } of ends) {
      const one = missing.find((one) => one.attempt === attempt);
      if (one !== undefined) {
        for (const batch of batchesOf(store, run, files, one, one.stored, clock)) {
          storeBatch(store, run.runId, attempt, batch);
        }
      }
      storeFiles(store, run.runId, known, attempt);
    }
  } else {
    // The log of a live attempt may also be longer than what is stored: its proxy then delivers
    // from the new position.
    const mayHaveMore = ends.some((one) => one.end > one.stored) ||
      unplaced(ends, stored).length > 0 ||
      (stored?.lostCursors.size ?? 0) > 0;
    lost = rebuild(store, known, ends, clock, mayHaveMore, stored);
  }
  const after = countsOf(store, run.runId);
  const added = KINDS.map((kind) => `${after[kind] - before[kind]} ${kind}`).join(", ");
  const filled = Object.entries(stored?.missing ?? {}).map(([kind, n]) => `${n} ${kind}`).join(
    ", ",
  );
  return `read the run's log and files: ${added} added${
    filled === "" ? "" : `; filled in between: ${filled}`
  }${
    lost === 0
      ? ""
      : `; of these ${lost} events are in no existing log or file, such as those that came by calls (Publish, ` +
        `MLflow): each is replaced by an event ${LOST_KIND}`
  }`;
}

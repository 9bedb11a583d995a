/** Compares each run's counters, rows and logs, and fills gaps of its telemetry. */
import type { DatabaseSync } from "node:sqlite";
import { readDatabase } from "../../os/database/read_database.ts";
import { MosaicError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { TelemetryStore } from "../../telemetry/store.ts";
import { type StoredRun, storedRuns } from "../../telemetry/commit/completeness.ts";
import type { Repairable } from "./finding.ts";
import { leftInFiles, readLater, type RunOnDisk } from "./observed_files.ts";
import { lacking, refill, unplaced } from "./refill.ts";
import { journalEnds, runFiles } from "./run_logs.ts";
import type { KnownRun } from "./registry_state.ts";

export function examineTelemetry(layout: Layout, runs: readonly KnownRun[]): Repairable[] {
  const stored = readStored(layout);
  return runs.flatMap((run) => {
    const message = whatIsMissing(onDisk(layout, run, runs), stored.get(run.runId));
    return message === undefined ? [] : [{
      ...{
        check: "telemetry" as const,
        severity: "error" as const,
        path: layout.telemetryDb,
        message,
      },
      remedy: "read the run's log and files again and store what is missing",
      repair: () => reindex(layout, run, runs),
    }];
  });
}

/** Fills the gaps of one run. The caller holds the daemon's lock. @returns what was done */
export function reindex(layout: Layout, run: KnownRun, runs: readonly KnownRun[]): string {
  let stored = readStored(layout).get(run.runId);
  const known = onDisk(layout, run, runs);
  if (whatIsMissing(known, stored) === undefined) return "nothing is missing";
  const clock = { now: Date.now() };
  const store = TelemetryStore.open(layout.telemetryDb, {
    now: () => clock.now,
    checkpoints: { mode: "inline" },
  });
  try {
    if (stored?.miscounted) {
      // The store counts the rows again when it reads such a run.
      store.summary(run.runId);
      stored = readStored(layout).get(run.runId);
      const counted = "counted the run's rows again";
      return whatIsMissing(known, stored) === undefined
        ? counted
        : `${counted}; ${refill(store, known, stored, clock)}`;
    }
    return refill(store, known, stored, clock);
  } finally {
    store.close();
  }
}

function onDisk(layout: Layout, run: KnownRun, runs: readonly KnownRun[]): RunOnDisk {
  const others = runs.filter((other) => other.runId !== run.runId && other.startedAt !== null)
    .map((other) => ({ run: other, files: runFiles(layout, other) }));
  return { run, files: runFiles(layout, run), others };
}

function whatIsMissing(known: RunOnDisk, stored: StoredRun | undefined): string | undefined {
  const { run, files } = known;
  // A damaged row does not reliably name its directory or its attempts.
  if (run.damaged.length > 0 || run.startedAt === null) return undefined;
  if (stored?.miscounted) {
    return `the counters of the telemetry of run ${run.runId} (${run.name}) are damaged`;
  }
  const missing = Object.entries(stored?.missing ?? {}).map(([kind, n]) => `${n} ${kind}`);
  const ends = journalEnds(files, run, stored);
  const lost = unplaced(ends, stored);
  for (const { attempt } of lost) {
    missing.push(`the position up to which the log of attempt ${attempt} is stored`);
  }
  for (const one of lacking(run, ends)) {
    const { attempt, end, stored: from } = one;
    if (!lost.includes(one)) {
      missing.push(`${end - from} of ${end} bytes of the log of attempt ${attempt}`);
    }
  }
  for (let attempt = 1; attempt <= run.attempt; attempt++) {
    const cursors = stored?.cursors.get(attempt) ?? [];
    // If something of a run is stored, only its known files are read.
    const later = readLater(run, attempt, (of) => stored?.cursors.get(of) ?? []);
    const left = leftInFiles(known, attempt, cursors, stored === undefined ? "new" : "known")
      .find(({ source }) => !later.has(source!.name));
    if (left !== undefined) missing.push(`what ${left.source!.name} has of attempt ${attempt}`);
  }
  if (missing.length === 0) return undefined;
  return `the telemetry of run ${run.runId} (${run.name}) lacks ${missing.join(", ")}`;
}

function readStored(layout: Layout): Map<string, StoredRun> {
  let db: DatabaseSync;
  try {
    Deno.lstatSync(layout.telemetryDb);
    db = readDatabase(layout.telemetryDb);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return new Map();
    throw new MosaicError("unavailable", `cannot read ${layout.telemetryDb}`, { cause: error });
  }
  try {
    // A file in which nothing was stored yet has no tables.
    const { n } = db.prepare(
      "SELECT count(*) AS n FROM sqlite_master WHERE name = 'telemetry_runs'",
    ).get() as {
      n: number;
    };
    return n === 0 ? new Map() : storedRuns(db);
  } finally {
    db.close();
  }
}

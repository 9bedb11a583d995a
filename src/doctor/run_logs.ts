/** Reads a run's logs (journals) again, batch by batch as its proxies do, and stores them. */
import { type Layout, RunFiles } from "../base/layout.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { infoOf, readRecord } from "../os/untrusted.ts";
import { buildBatch, type BuiltBatch } from "../proxy/batches.ts";
import { Journal } from "../proxy/journal.ts";
import { JournalFile } from "../proxy/journal_file.ts";
import type { ProxyStartFile } from "../proxy/start_file.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { IngestBatch } from "../telemetry/ingest_batch.ts";
import { lesserBatches } from "../telemetry/refused.ts";
import { telemetryValidator } from "../telemetry/schemas/validator.ts";
import type { TelemetryStore } from "../telemetry/store.ts";
import type { StoredRun } from "../telemetry/store/completeness.ts";
import { refusesContent } from "../telemetry/store/failures.ts";
import { rendered, stepsOf } from "../telemetry/thin_log.ts";
import { leftInFiles, parsed, type ReadBatch, readLater, type RunOnDisk } from "./observed_files.ts";
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

/** The ends of the existing logs of a run's attempts. The proxy of a live attempt delivers its log itself. */
export function journalEnds(files: RunFiles, run: KnownRun, stored: StoredRun | undefined): JournalEnd[] {
  const ends: JournalEnd[] = [];
  for (let attempt = 1; attempt <= run.attempt; attempt++) {
    const file = JournalFile.left(files, attempt);
    try {
      ends.push({ attempt, end: file.size(), stored: stored?.positions.get(attempt) ?? 0 });
    } finally {
      file.close();
    }
  }
  return ends;
}

export function countsOf(store: TelemetryStore, runId: string): Record<typeof KINDS[number], number> {
  const { steps, episodes, events } = store.summary(runId);
  return { steps, episodes, events };
}

/** Stores what an ended attempt's files have after their cursors. */
export function storeFiles(store: TelemetryStore, target: string, known: RunOnDisk, attempt: number): void {
  const own = (of: number) => (store.sourceCursors(target, of) ?? []).filter(({ serial }) => serial > 0);
  const later = readLater(known.run, attempt, own);
  for (const batch of leftInFiles(known, attempt, store.sourceCursors(target, attempt) ?? [])) {
    if (!later.has(batch.source!.name)) storeBatch(store, target, attempt, batch);
  }
}

export function unfilled(runId: string, why: string): MosaicError {
  return new MosaicError("failed_precondition", `the telemetry of run ${runId} cannot be filled from its log: ${why}`, {
    hint: "What is stored stays as it is.",
  });
}

/** As in the daemon, an event replaces records that the store refuses for their content. */
export function storeBatch(store: TelemetryStore, runId: string, attempt: number, batch: IngestBatch): void {
  let refused: unknown;
  for (const one of [batch, ...lesserBatches(batch, "its content is refused")]) {
    try {
      const result = store.ingest(runId, attempt, one);
      if (result.type === "gap") throw unfilled(runId, `attempt ${attempt} is stored up to ${result.position} only`);
      return;
    } catch (error) {
      if (!refusesContent(error)) throw error;
      refused = error;
    }
  }
  throw refused;
}

/**
 * The records of an attempt's log from a position up to its known end: the worker of a live attempt may still write, and
 * each reading of one repair must see the same records.
 */
export function* batchesOf(
  store: TelemetryStore,
  run: KnownRun,
  files: RunFiles,
  { attempt, end }: JournalEnd,
  from: number,
  clock: { now: number },
): Generator<ReadBatch> {
  const start = JSON.parse(readRecord(files.proxyFile(attempt)) ?? "{}") as Partial<ProxyStartFile>;
  const check = telemetryValidator(start.schema ?? null)?.check;
  const reading = {
    context: { agentId: run.agentId, workerId: run.workerId },
    check,
    textOff: start.textOff ?? [],
  };
  let torn: string | undefined;
  const render = (thin: Uint8Array) => {
    try {
      return rendered(thin, stepsOf(store, run.runId));
    } catch (error) {
      torn = messageOf(error);
      throw error;
    }
  };
  const journal = new Journal(JournalFile.left(files, attempt, render));
  const final = isEnded(run.state) || attempt < run.attempt;
  try {
    clock.now = infoOf(files.stdout(attempt))?.mtime?.getTime() ?? clock.now;
  } catch {
    // There is no log.
  }
  try {
    journal.endAt(end);
    journal.seek(from);
    for (let chunk; (chunk = journal.next(final)) !== undefined;) {
      if (torn !== undefined) {
        throw unfilled(
          run.runId,
          `it is thinned, so it has the text of its steps only where they are stored (${torn})`,
        );
      }
      const built = buildBatch(chunk, reading, final ? { final } : { final, written: journal.size() });
      if (built.to < chunk.to) journal.giveBack(built.to);
      // All of it is the beginning of an unfinished table.
      if (built.to === chunk.from && chunk.to > chunk.from) return;
      yield batchOf(built);
    }
  } finally {
    journal.close();
  }
}

function batchOf({ message }: BuiltBatch): ReadBatch {
  return {
    from: Number(message.fromPosition),
    to: Number(message.toPosition),
    steps: parsed(message.stepsJson, { n: 0 }),
    episodes: parsed(message.episodesJson, []),
    events: parsed(message.eventsJson, []),
    otherLines: Number(message.otherLines),
    malformedLines: Number(message.malformedLines),
    violations: Object.fromEntries(Object.entries(message.violations ?? {}).map(([rule, n]) => [rule, Number(n)])),
  };
}

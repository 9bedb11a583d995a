/** Reads the journal that an attempt has left, batch by batch as its proxies do, and stores it. */
import type { RunFiles } from "../../base/layout.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { infoOf, readRecord } from "../../os/files/untrusted.ts";
import type { IngestBatch } from "../../records/ingest_batch.ts";
import type { StepColumns } from "../../gen/records/record_types.ts";
import { lesserBatches } from "../../records/refused.ts";
import type { CompilePattern } from "../../readers/schemas/compile.ts";
import { telemetryValidator } from "../../readers/schemas/validator.ts";
import { refusesContent } from "../../telemetry/blocks/failures.ts";
import type { TelemetryLog, TelemetryReader } from "../../telemetry/telemetry_log.ts";
import { rendered, stepsOf } from "../../journal/thin_log.ts";
import { buildBatch, type BuiltBatch } from "./batches.ts";
import { Journal } from "../../journal/journal.ts";
import { JournalFile } from "../../journal/journal_file.ts";
import type { ProxyStartFile } from "../start/start_file.ts";

/** Read here, so nothing is sealed yet. */
export type ReadBatch = IngestBatch & { steps: StepColumns };

export interface LeftJournal {
  attempt: number;
  /** The position of the journal's end. */
  end: number;
  /** No proxy continues with it: text after the last newline is a line, too. */
  final: boolean;
}

const decoder = new TextDecoder();

/** The position of the end of an attempt's journal; 0 if there is none. */
export function journalEnd(files: RunFiles, attempt: number): number {
  const file = JournalFile.left(files, attempt);
  try {
    return file.size();
  } finally {
    file.close();
  }
}

export function unfilled(runId: string, why: string): MosaicError {
  return new MosaicError(
    "failed_precondition",
    `the telemetry of run ${runId} cannot be filled from its log: ${why}`,
    {
      hint: "What is stored stays as it is.",
    },
  );
}

/** As in the daemon, an event replaces records that the store refuses for their content. */
export function storeBatch(
  store: Pick<TelemetryLog, "ingest">,
  runId: string,
  attempt: number,
  batch: IngestBatch,
): void {
  let refused: unknown;
  for (const one of [batch, ...lesserBatches(batch, "its content is refused")]) {
    try {
      const result = store.ingest(runId, attempt, one);
      if (result.type === "gap") {
        throw unfilled(runId, `attempt ${attempt} is stored up to ${result.position} only`);
      }
      return;
    } catch (error) {
      if (!refusesContent(error)) throw error;
      refused = error;
    }
  }
  throw refused;
}

/**
 * The records of an attempt's log from a position up to its known end: the worker of a live attempt
 * may still write, and each reading of one repair must see the same records.
 */
export function* journalBatches(
  store: Pick<TelemetryReader, "read">,
  run: { runId: string; agentId: string; workerId: string },
  files: RunFiles,
  { attempt, end, final }: LeftJournal,
  from: number,
  clock: { now: number },
  patterns: CompilePattern,
): Generator<ReadBatch> {
  const start = JSON.parse(readRecord(files.proxyFile(attempt)) ?? "{}") as Partial<ProxyStartFile>;
  const check = telemetryValidator(start.schema ?? null, patterns)?.check;
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
      const built = buildBatch(
        chunk,
        reading,
        final ? { final } : { final, written: journal.size() },
      );
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
    violations: Object.fromEntries(
      Object.entries(message.violations ?? {}).map(([rule, n]) => [rule, Number(n)]),
    ),
  };
}

export function parsed<T>(bytes: Uint8Array | undefined, empty: T): T {
  return bytes === undefined || bytes.length === 0 ? empty : JSON.parse(decoder.decode(bytes));
}

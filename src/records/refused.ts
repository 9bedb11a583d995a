/**
 * Replacements for a batch whose content cannot be stored: it would be refused each time, and block
 * everything after it. The records stay in the worker's log, and an event of the run says where.
 * Pure.
 */
import type { IngestBatch } from "./ingest_batch.ts";
import type { WorkerEventRecord } from "../gen/records/record_types.ts";

/** The event's data: `{from, to, records, reason}`, positions in the worker's log. */
export const REFUSED_KIND = "records_refused";
const RULE = "store: records were refused";

function recordsIn(batch: IngestBatch): number {
  return batch.steps.n + batch.episodes.length + batch.events.length;
}

function notice(
  batch: Pick<IngestBatch, "from" | "to">,
  records: number | null,
  reason: string,
): WorkerEventRecord {
  const data = { from: batch.from, to: batch.to, records, reason };
  return { kind: REFUSED_KIND, dataJson: JSON.stringify(data), tsNs: "" };
}

/** A batch of which only the positions could be read. */
export function unreadableBatch(from: number, to: number, reason: string): IngestBatch {
  return {
    from,
    to,
    steps: { n: 0 },
    episodes: [],
    events: [notice({ from, to }, null, reason)],
    otherLines: 0,
    malformedLines: 0,
    violations: { [RULE]: 1 },
  };
}

/**
 * The same range of the log with fewer and fewer records, to be tried in this order; the last
 * contains nothing that could be refused.
 */
export function* lesserBatches(batch: IngestBatch, reason: string): Generator<IngestBatch> {
  const none = { steps: { n: 0 }, episodes: [], events: [] };
  const parts: (Partial<typeof none>)[] = [
    { events: none.events },
    { episodes: none.episodes },
    { steps: none.steps },
    none,
  ];
  for (const part of parts) {
    const less = { ...batch, ...part };
    const refused = recordsIn(batch) - recordsIn(less);
    if (refused === 0) continue;
    const violations = { ...batch.violations, [RULE]: refused };
    yield { ...less, events: [...less.events, notice(batch, refused, reason)], violations };
  }
  yield { ...batch, ...none, violations: { ...batch.violations, [RULE]: recordsIn(batch) } };
}

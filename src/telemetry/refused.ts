/**
 * What is stored in place of a batch that cannot be stored for what is in it: to try it again would be refused again, and
 * hold up all that comes after it. The records stay in the worker's log, and an event among the run's says where. Pure.
 */
import type { IngestBatch, WorkerEventRecord } from "./ingest_batch.ts";

/** The event that tells of it: data `{from, to, records, reason}`, positions in the worker's log. */
export const REFUSED_KIND = "records_refused";
const RULE = "store: records were refused";

function recordsIn(batch: IngestBatch): number {
  return batch.steps.n + batch.episodes.length + batch.events.length;
}

function notice(batch: Pick<IngestBatch, "from" | "to">, records: number | null, reason: string): WorkerEventRecord {
  const data = { from: batch.from, to: batch.to, records, reason };
  return { kind: REFUSED_KIND, dataJson: JSON.stringify(data), tsNs: "" };
}

/** A batch whose positions are all that could be read. */
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

/** The same stretch of the log with fewer and fewer records, to be tried in this order; the last has nothing to refuse. */
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

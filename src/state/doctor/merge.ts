/**
 * Which records of a run's logs and files are missing among the stored ones, and where they belong.
 * Pure.
 */
import { parsedJson } from "../../base/text/json_text.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../../gen/records/record_types.ts";
import { METRICS_KIND } from "../../readers/text/text_records.ts";

export type LogRecord = EpisodeRecord | WorkerEventRecord;

/** A record read again from a log or file. */
export interface Logged {
  record: LogRecord;
  /** The attempt of the log, or the last one that wrote to the file. */
  attempt: number;
  /** The log or file; its records are in the order in which they were written. */
  stream: number;
  /** For journals: number of its batch. */
  batch: number;
}

/**
 * A record at one number: a stored one (`logged`: its record in a log, if any), or one that was
 * missing.
 */
export interface Placed {
  seq: number;
  stored: boolean;
  record: LogRecord;
  logged: { stream: number; batch: number } | undefined;
}

export interface Merged {
  placed: Placed[];
  /** Numbers of records that are in no log. */
  lost: number[];
  /** Records for which no number is left. */
  further: Logged[];
}

/**
 * A proxy may have divided the points of one step into records differently from this reader, so
 * points are compared, not records. Missing records get the free numbers in the order of their log,
 * but never before the preceding record of the log.
 * @param stored the existing records, by number, of `head`
 */
export function merge(
  stored: ReadonlyMap<number, LogRecord>,
  head: number,
  logged: readonly Logged[],
): Merged {
  const left = logged.map(({ record }) => new Set(partsOf(record)));
  const open = new Map([...stored].map(([seq, record]) => [seq, new Set(partsOf(record))]));
  const origins = new Map<number, Logged>();
  /** By index in `logged`: the number of the record, or of a part of it. */
  const seqOf = new Map<number, number>();
  // Attempts with the same seed write the same records, so attempts are compared separately first.
  // A file of several attempts is read as the last one's.
  for (
    const key of [(part: string, attempt: number) => `${attempt} ${part}`, (part: string) => part]
  ) {
    const waiting = new Map<string, { at: number[]; next: number }>();
    for (const [i, parts] of left.entries()) {
      for (const part of parts) {
        const name = key(part, logged[i]!.attempt);
        const found = waiting.get(name);
        if (found === undefined) waiting.set(name, { at: [i], next: 0 });
        else found.at.push(i);
      }
    }
    for (const [seq, record] of stored) {
      const parts = open.get(seq)!;
      for (const part of parts) {
        const found = waiting.get(key(part, attemptOf(record)));
        const i = found?.at[found.next];
        if (i === undefined) continue;
        found!.next++;
        left[i]!.delete(part);
        parts.delete(part);
        if (!origins.has(seq)) origins.set(seq, logged[i]!);
        seqOf.set(i, Math.max(seqOf.get(i) ?? 0, seq));
      }
    }
  }
  const placed = new Map<number, Placed>(
    [...stored].map((
      [seq, record],
    ) => [seq, { seq, stored: true, record, logged: origins.get(seq) }]),
  );

  const after = new Map<number, number>();
  const missing: (Logged & { after: number })[] = [];
  for (const [i, one] of logged.entries()) {
    const seq = seqOf.get(i);
    if (seq !== undefined) after.set(one.stream, Math.max(after.get(one.stream) ?? 0, seq));
    if (left[i]!.size === 0) continue;
    missing.push({
      ...one,
      record: withParts(one.record, left[i]!),
      after: after.get(one.stream) ?? 0,
    });
  }
  missing.sort((a, b) => a.after - b.after);
  const free: number[] = [];
  for (let seq = 1; seq <= head; seq++) if (!stored.has(seq)) free.push(seq);
  const further: Logged[] = [];
  let next = 0;
  const lost: number[] = [];
  for (const { after, ...one } of missing) {
    while (next < free.length && free[next]! <= after) lost.push(free[next++]!);
    const seq = free[next++];
    if (seq === undefined) further.push(one);
    else placed.set(seq, { seq, stored: false, record: one.record, logged: one });
  }
  lost.push(...free.slice(next));
  return { placed: [...placed.values()].sort((a, b) => a.seq - b.seq), lost, further };
}

/** Records read from a log have no attempt of their own. */
export const attemptOf = (record: LogRecord): number =>
  (record as LogRecord & { attempt?: number }).attempt ?? 1;

const isMetrics = (record: LogRecord): record is WorkerEventRecord =>
  "kind" in record && record.kind === METRICS_KIND;

/** What identifies a record: its points, or its content without time and source. */
function partsOf(record: LogRecord): string[] {
  if (!("kind" in record)) {
    const { episode, totalReward, steps, terminated, truncated, metadataJson } = record;
    return [
      JSON.stringify([episode, String(totalReward), steps, terminated, truncated, metadataJson]),
    ];
  }
  const fields = isMetrics(record) ? fieldsOf(record) : undefined;
  if (fields === undefined) return [`${record.kind} ${record.dataJson}`];
  const { global_step: step, ...points } = fields;
  const names = Object.keys(points);
  return names.length === 0
    ? [`${record.kind} ${record.dataJson}`]
    : names.map((name) => `${step} ${name} ${JSON.stringify(points[name])}`);
}

function fieldsOf({ dataJson }: WorkerEventRecord): Record<string, unknown> | undefined {
  try {
    const value: unknown = parsedJson(dataJson);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? value as Record<string, unknown>
      : undefined;
  } catch {
    return undefined;
  }
}

/** The record with only those points. */
function withParts(record: LogRecord, parts: ReadonlySet<string>): LogRecord {
  const fields = isMetrics(record) ? fieldsOf(record) : undefined;
  if (fields === undefined || parts.size === partsOf(record).length) return record;
  const { global_step: step, ...points } = fields;
  const kept = Object.entries(points).filter(([name, value]) =>
    parts.has(`${step} ${name} ${JSON.stringify(value)}`)
  );
  const dataJson = JSON.stringify({
    ...(step === undefined ? {} : { global_step: step }),
    ...Object.fromEntries(kept),
  });
  return { ...record as WorkerEventRecord, dataJson };
}

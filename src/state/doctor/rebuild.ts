/** Rebuilds a run's telemetry if records in between are missing: every record keeps its seq. */
import { readRecord } from "../../os/files/untrusted.ts";
import type { RunFiles } from "../../base/layout.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../../gen/records/record_types.ts";
import type { TelemetryStore } from "../../telemetry/store.ts";
import type { StoredRun } from "../../telemetry/commit/completeness.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import {
  attemptOf,
  type Logged,
  type LogRecord,
  merge,
  type Merged,
  type Placed,
} from "./merge.ts";
import { type ReadBatch, storeBatch, unfilled } from "../../proxy/delivery/left_journal.ts";
import { leftInFiles, NO_RECORDS, readLater, type RunOnDisk } from "./observed_files.ts";
import { batchesOf, countsOf, type JournalEnd, KINDS, storeFiles } from "./run_logs.ts";

/** Event that replaces an event which is damaged and in no log. */
export const LOST_KIND = "record_lost";
/** Bound on episodes and events that are compared in memory. */
const MAX_MERGED = 2_000_000;
const MAX_AT_ONCE = 2000;

/**
 * The time of a record: its own, else that of the preceding record of its kind, else when the log
 * was last written.
 */
class Times {
  readonly #clock: { now: number };
  readonly #last = new Map<TelemetryKind, string>();

  constructor(clock: { now: number }) {
    this.#clock = clock;
  }

  /** @param own "" or undefined: the record has none */
  of(kind: TelemetryKind, own: string | undefined): string {
    const time = own || this.#last.get(kind) || `${Math.floor(this.#clock.now)}000000`;
    this.#last.set(kind, time);
    return time;
  }
}

interface LogLabel {
  attempt: number;
  label: string;
}

/**
 * Stores the episodes and events of the copy in the order of their seqs, in groups of one attempt
 * and one label.
 */
class PlacedRecords {
  readonly #kinds: { kind: "episodes" | "events"; placed: readonly Placed[]; next: number }[];

  constructor(
    readonly store: TelemetryStore,
    readonly copy: string,
    merged: { episodes: Merged; events: Merged },
    readonly labels: readonly LogLabel[],
    readonly callLabel: string,
    readonly times: Times,
  ) {
    this.#kinds = (["episodes", "events"] as const).map((kind) => ({
      kind,
      placed: merged[kind].placed,
      next: 0,
    }));
  }

  /**
   * All records up to those of this batch of the journals; records of files and calls as soon as
   * they are next.
   */
  storeThrough(batch: number): void {
    for (const of of this.#kinds) {
      const { kind, placed } = of;
      let group: { attempt: number; label: string; records: LogRecord[] } | undefined;
      for (let one; (one = placed[of.next]) !== undefined; of.next++) {
        if ((one.logged?.batch ?? -1) > batch) break;
        const from = one.logged === undefined
          ? { attempt: group?.attempt ?? 1, label: this.callLabel }
          : this.labels[one.logged.stream]!;
        const attempt = one.stored ? attemptOf(one.record) : from.attempt;
        if (
          group?.attempt !== attempt || group.label !== from.label ||
          group.records.length >= MAX_AT_ONCE
        ) {
          this.#append(kind, group);
          group = undefined;
        }
        group ??= { attempt, label: from.label, records: [] };
        group.records.push({ ...one.record, tsNs: this.times.of(kind, one.record.tsNs) });
      }
      this.#append(kind, group);
    }
  }

  #append(
    kind: "episodes" | "events",
    group?: { attempt: number; label: string; records: LogRecord[] },
  ): void {
    if (group === undefined) return;
    const { attempt, label, records } = group;
    if (kind === "episodes") {
      this.store.append(this.copy, attempt, [], records as EpisodeRecord[], [], label);
    } else this.store.append(this.copy, attempt, [], [], records as WorkerEventRecord[], label);
  }
}

/**
 * Rebuilds the run's telemetry, under an id of its own, from all logs and files and from records
 * that only the store has, and replaces the run's with it in one transaction.
 * @param mayHaveMore the logs may have records beyond those that are known to be missing
 * @returns number of lost events
 */
export function rebuild(
  store: TelemetryStore,
  known: RunOnDisk,
  ends: readonly JournalEnd[],
  clock: { now: number },
  mayHaveMore: boolean,
  before: StoredRun | undefined,
): number {
  const { run, files } = known;
  const { runId } = run;
  for (const { attempt, end, stored } of ends) {
    if (end >= stored) continue;
    throw unfilled(
      runId,
      `the log of attempt ${attempt} has ${end} of ${stored} bytes that were stored`,
    );
  }
  const cursors = new Map(
    ends.map((
      { attempt },
    ) => [attempt, (before?.cursors.get(attempt) ?? []).filter(({ serial }) => serial > 0)]),
  );
  if (before?.lostCursors.has(run.attempt) && !isEnded(run.state)) {
    throw unfilled(
      runId,
      "how far a file of its live attempt is stored is known when the attempt has ended",
    );
  }
  const { labels, merged } = readAgain(store, known, ends, cursors, clock, mayHaveMore, before);
  const copy = `reindex:${runId}`;
  // An interrupted repair may have left one.
  store.discard(copy);
  try {
    const times = new Times(clock);
    const placed = new PlacedRecords(store, copy, merged, labels, callLabel(files), times);
    let number = 0;
    for (const end of ends) {
      const { attempt } = end;
      store.carryStart(runId, copy, attempt);
      for (const batch of batchesOf(store, run, files, end, 0, clock)) {
        const since = countsOf(store, copy).steps;
        const kept = survivors(store, runId, "steps", since, batch.steps.n, before);
        keepTimes(batch, since, kept, times);
        storeBatch(store, copy, attempt, { ...batch, episodes: [], events: [] });
        requireSame(store, copy, since, kept, runId);
        placed.storeThrough(number++);
      }
    }
    placed.storeThrough(Infinity);
    for (const [attempt, own] of cursors) {
      for (const { serial, ...source } of own) {
        storeBatch(store, copy, attempt, { ...NO_RECORDS, source, from: 0, to: serial });
      }
    }
    for (const { attempt } of ends) storeFiles(store, copy, known, attempt);
    store.carryPoints(runId, copy);
    const [had, has] = [countsOf(store, runId), countsOf(store, copy)];
    for (const kind of KINDS) {
      if (has[kind] < had[kind]) {
        throw unfilled(runId, `its logs have ${has[kind]} of ${had[kind]} ${kind}`);
      }
    }
    store.replace(runId, copy);
  } catch (error) {
    store.discard(copy);
    throw error;
  }
  return merged.events.lost.length;
}

/**
 * The records of all logs and files beside the stored ones, and the attempt and label of each log
 * and file.
 */
function readAgain(
  store: TelemetryStore,
  known: RunOnDisk,
  ends: readonly JournalEnd[],
  cursors: Map<number, SourceCursor[]>,
  clock: { now: number },
  mayHaveMore: boolean,
  before: StoredRun | undefined,
) {
  const { run, files } = known;
  const labels: LogLabel[] = [];
  const logged = { episodes: [] as Logged[], events: [] as Logged[] };
  const note = ({ episodes, events }: ReadBatch, stream: number, batch: number) => {
    const { attempt } = labels[stream]!;
    for (const record of episodes) logged.episodes.push({ record, attempt, stream, batch });
    for (const record of events) logged.events.push({ record, attempt, stream, batch });
    if (logged.episodes.length + logged.events.length <= MAX_MERGED) return;
    throw unfilled(
      run.runId,
      `its logs have more than ${MAX_MERGED} episodes and events, too many to be compared`,
    );
  };
  let number = 0;
  for (const end of ends) {
    const stream = labels.push({ attempt: end.attempt, label: "" }) - 1;
    for (const batch of batchesOf(store, run, files, end, 0, clock)) note(batch, stream, number++);
  }
  // A file that several attempts wrote to is read once, up to the last one's cursor.
  const last = new Map<string, { attempt: number; cursor: SourceCursor }>();
  for (const [attempt, own] of cursors) {
    for (const cursor of own) last.set(cursor.name, { attempt, cursor });
  }
  for (const { attempt } of ends) {
    if (before?.lostCursors.has(attempt)) readWhole(known, attempt, cursors, labels, note);
    const own = [...last.values()].filter((one) => one.attempt === attempt).map(({ cursor }) =>
      cursor
    );
    if (own.length === 0) continue;
    const streams = new Map<string, number>();
    for (const batch of leftInFiles(known, attempt, own, "again")) {
      const { name, label } = batch.source!;
      if (!streams.has(name)) streams.set(name, labels.push({ attempt, label }) - 1);
      note(batch, streams.get(name)!, -1);
    }
  }
  const head = countsOf(store, run.runId);
  const merged = {
    episodes: merge(
      storedRecords(store, run.runId, "episodes", head.episodes, before),
      head.episodes,
      logged.episodes,
    ),
    events: merge(
      storedRecords(store, run.runId, "events", head.events, before),
      head.events,
      logged.events,
    ),
  };
  for (const [kind, { lost, further, placed }] of Object.entries(merged)) {
    if (lost.length > 0 && kind === "episodes") {
      throw unfilled(
        run.runId,
        `${lost.length} of its ${head.episodes} episodes are in no existing log or file`,
      );
    }
    if (further.length > 0 && !mayHaveMore) {
      throw unfilled(
        run.runId,
        `its logs have ${further.length} ${kind} more than are missing, so they are others`,
      );
    }
    for (const seq of lost) {
      const record = {
        kind: LOST_KIND,
        dataJson: '{"reason":"it was damaged, and no log or file has it"}',
        tsNs: "",
      };
      placed.push({ seq, stored: false, record, logged: undefined });
    }
    placed.sort((a, b) => a.seq - b.seq);
    // After all numbered records: ends of logs that were not stored yet.
    for (const one of further) {
      placed.push({ seq: placed.length + 1, stored: false, record: one.record, logged: one });
    }
  }
  return { labels, merged };
}

/**
 * Files of an attempt whose cursors are lost: read from where earlier attempts stopped, else from
 * the beginning; they get cursors again.
 */
function readWhole(
  known: RunOnDisk,
  attempt: number,
  cursors: Map<number, SourceCursor[]>,
  labels: LogLabel[],
  note: (batch: ReadBatch, stream: number, batchNumber: number) => void,
): void {
  const own = cursors.get(attempt)!;
  const ownNames = new Set(own.map(({ name }) => name));
  const earlier = new Map<string, SourceCursor>();
  for (const [its, found] of cursors) {
    if (its < attempt) {
      for (const cursor of found) earlier.set(cursor.name, { ...cursor, serial: 0 });
    }
  }
  for (const name of ownNames) earlier.delete(name);
  // Read up to its cursor.
  const later = readLater(known.run, attempt, (of) => cursors.get(of) ?? []);
  const streams = new Map<string, number>();
  const ends = new Map<string, SourceCursor>();
  for (const batch of leftInFiles(known, attempt, [...own, ...earlier.values()])) {
    const { name, label, state } = batch.source!;
    // What is after an existing cursor is stored later.
    if (ownNames.has(name) || later.has(name)) continue;
    if (!streams.has(name)) streams.set(name, labels.push({ attempt, label }) - 1);
    note(batch, streams.get(name)!, -1);
    ends.set(name, { name, label, state, serial: batch.to });
  }
  own.push(...ends.values());
}

function storedRecords(
  store: TelemetryStore,
  runId: string,
  kind: "episodes" | "events",
  head: number,
  before: StoredRun | undefined,
): Map<number, LogRecord> {
  return survivors(store, runId, kind, 0, head, before) as Map<number, Stored & LogRecord>;
}

/**
 * Label of the series of records that are in no log: that of MLflow's clients, if the run had any.
 */
function callLabel(files: RunFiles): string {
  return readRecord(`${files.control}/mlflow.json`) === undefined ? "" : "mlflow";
}

type Stored = { seq: number; tsNs: string };

/** The intact records after `since`, by number. */
function survivors(
  store: TelemetryStore,
  runId: string,
  kind: typeof KINDS[number],
  since: number,
  count: number,
  before?: StoredRun,
): Map<number, Stored> {
  const found = new Map<number, Stored>();
  const to = Math.min(since + count, store.head(runId, kind));
  for (let at = since; at < to;) {
    const rows = store.read(runId, kind, at, to - at) as Stored[];
    // Reading skips a damaged block.
    for (const row of rows) {
      if (row.seq <= to && !before?.damaged[kind].has(row.seq)) found.set(row.seq, row);
    }
    at = rows.at(-1)?.seq ?? at + 1;
  }
  return found;
}

/**
 * A step without a time of its own keeps the one that the store gave it; a missing step gets that
 * of the preceding one.
 */
function keepTimes(
  { steps }: ReadBatch,
  since: number,
  kept: Map<number, Stored>,
  times: Times,
): void {
  if (steps.n === 0) return;
  steps.tsNs = Array.from({ length: steps.n }, (_, i) => {
    return times.of("steps", steps.tsNs?.[i] || kept.get(since + i + 1)?.tsNs);
  });
}

/** The names of the source may differ: they are in a table of their own. */
const NOT_COMPARED = new Set(["tsNs", "agentId", "workerId", "policyLabel", "backend"]);

function requireSame(
  store: TelemetryStore,
  copy: string,
  since: number,
  kept: Map<number, Stored>,
  runId: string,
): void {
  if (kept.size === 0) return;
  const now = survivors(store, copy, "steps", since, store.head(copy, "steps") - since);
  const comparable = (row: Stored | undefined) =>
    JSON.stringify(row, (key, value) => NOT_COMPARED.has(key) ? undefined : value);
  for (const [seq, row] of kept) {
    if (comparable(row) === comparable(now.get(seq))) continue;
    throw unfilled(runId, `number ${seq} of its steps is another record in its log`);
  }
}

/** Fills what telemetry.sqlite lacks of a run from the run's own logs (journals), read as its proxies read them. */
import { type Layout, RunFiles } from "../base/layout.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { readRecord } from "../os/untrusted.ts";
import { buildBatch, type BuiltBatch } from "../proxy/batches.ts";
import { Journal } from "../proxy/journal.ts";
import { JournalFile } from "../proxy/journal_file.ts";
import type { ProxyStartFile } from "../proxy/start_file.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { EpisodeRecord, IngestBatch, SourceCursor, WorkerEventRecord } from "../telemetry/batch.ts";
import { lesserBatches } from "../telemetry/refused.ts";
import { telemetryValidator } from "../telemetry/schemas/validator.ts";
import type { TelemetryStore } from "../telemetry/store.ts";
import type { StoredRun } from "../telemetry/store/completeness.ts";
import { refusesContent } from "../telemetry/store/failures.ts";
import { rendered, stepsOf } from "../telemetry/thin_log.ts";
import type { TelemetryKind } from "../telemetry/types.ts";
import { attemptOf, type Logged, type LogRecord, merge } from "./merge.ts";
import { leftInFiles, NO_RECORDS, parsed, type ReadBatch, readLater, type RunOnDisk } from "./observed_files.ts";
import type { KnownRun } from "./registry_state.ts";

/** What is compared with the counters: metrics and series are made from these. */
const KINDS = ["steps", "episodes", "events"] as const;
/** An event in the place of one that damage took and that is nowhere else. */
const LOST_KIND = "record_lost";
/** Episodes and events that are compared in memory. */
const MAX_MERGED = 2_000_000;
const MAX_AT_ONCE = 2000;

export interface JournalEnd {
  attempt: number;
  /** The position of the journal's end. */
  end: number;
  stored: number;
}

export function runFiles(layout: Layout, run: KnownRun): RunFiles {
  return new RunFiles(layout.runDir(run.baseDir, run.runId), run.workerId);
}

/** How far the logs of a run's attempts go that are still there. The proxy of a live attempt delivers that one itself. */
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

/** Attempts of which the store has less than their log; not the live one, which has a proxy. */
export function lacking(run: KnownRun, ends: readonly JournalEnd[]): JournalEnd[] {
  return ends.filter(({ attempt, end, stored }) => end > stored && (isEnded(run.state) || attempt < run.attempt));
}

/** Attempts of which something is stored and nobody knows how much: their logs would be stored a second time. */
export function unplaced(ends: readonly JournalEnd[], stored: StoredRun | undefined): JournalEnd[] {
  return ends.filter(({ attempt, end }) =>
    stored !== undefined && attempt <= stored.attempt && end > 0 && !stored.positions.has(attempt)
  );
}

/**
 * Stores what is missing. Where only the ends of logs and files are, they are stored behind what is there. Otherwise all of
 * them are read anew beside the run's telemetry, which they replace together with what only the store has: numbers of
 * records stay, and so do times that only the store knew.
 *
 * @param clock set to when an attempt's log was last written: the time of records that name none
 * @throws MosaicError `failed_precondition` when the logs do not have what is missing; then nothing has changed
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
  const isWhole = Object.keys(stored?.missing ?? {}).length === 0 && unplaced(ends, stored).length === 0;
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
    // The log of a live attempt, too, may be longer than what is stored: its proxy then delivers from the new position.
    const mayHaveMore = ends.some((one) => one.end > one.stored) || unplaced(ends, stored).length > 0 ||
      (stored?.lostCursors.size ?? 0) > 0;
    lost = rebuild(store, known, ends, clock, mayHaveMore, stored);
  }
  const after = countsOf(store, run.runId);
  const added = KINDS.map((kind) => `${after[kind] - before[kind]} ${kind}`).join(", ");
  const filled = Object.entries(stored?.missing ?? {}).map(([kind, n]) => `${n} ${kind}`).join(", ");
  return `read the run's log and files: ${added} added${filled === "" ? "" : `; filled in between: ${filled}`}${
    lost === 0
      ? ""
      : `; of these ${lost} events are in no log or file that is there, as what comes by calls (Publish, ` +
        `MLflow): in the place of each is an event ${LOST_KIND}`
  }`;
}

function countsOf(store: TelemetryStore, runId: string): Record<typeof KINDS[number], number> {
  const { steps, episodes, events } = store.summary(runId);
  return { steps, episodes, events };
}

/** What of an ended attempt's files is not stored, behind where their cursors stand. */
function storeFiles(store: TelemetryStore, made: string, known: RunOnDisk, attempt: number): void {
  const own = (of: number) => (store.sourceCursors(made, of) ?? []).filter(({ serial }) => serial > 0);
  const later = readLater(known.run, attempt, own);
  for (const batch of leftInFiles(known, attempt, store.sourceCursors(made, attempt) ?? [])) {
    if (!later.has(batch.source!.name)) storeBatch(store, made, attempt, batch);
  }
}

/** @returns how many events are lost */
function rebuild(
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
    throw unfilled(runId, `the log of attempt ${attempt} has ${end} of ${stored} bytes that were stored`);
  }
  const cursors = new Map(
    ends.map(({ attempt }) => [attempt, (before?.cursors.get(attempt) ?? []).filter(({ serial }) => serial > 0)]),
  );
  if (before?.lostCursors.has(run.attempt) && !isEnded(run.state)) {
    throw unfilled(runId, "how far a file of its live attempt is stored is known when the attempt has ended");
  }
  const { labels, merged } = readAgain(store, known, ends, cursors, clock, mayHaveMore, before);
  const made = `reindex:${runId}`;
  // What an earlier try has left.
  store.discard(made);
  try {
    const times = new Map<TelemetryKind, string>();
    const placed = { episodes: merged.episodes.placed, events: merged.events.placed };
    const next = { episodes: 0, events: 0 };
    const put = (batch: number) => {
      for (const kind of ["episodes", "events"] as const) {
        let group: { attempt: number; label: string; records: LogRecord[] } | undefined;
        const flush = () => {
          if (group === undefined) return;
          const { attempt, label, records } = group;
          if (kind === "episodes") store.append(made, attempt, [], records as EpisodeRecord[], [], label);
          else store.append(made, attempt, [], [], records as WorkerEventRecord[], label);
          group = undefined;
        };
        for (let one; (one = placed[kind][next[kind]]) !== undefined; next[kind]++) {
          if ((one.logged?.batch ?? -1) > batch) break;
          const { attempt, label } = one.logged === undefined
            ? { attempt: group?.attempt ?? 1, label: callLabel(files) }
            : labels[one.logged.stream]!;
          const of = one.stored ? attemptOf(one.record) : attempt;
          if (group?.attempt !== of || group.label !== label || group.records.length >= MAX_AT_ONCE) flush();
          group ??= { attempt: of, label, records: [] };
          const tsNs = one.record.tsNs || times.get(kind) || `${Math.floor(clock.now)}000000`;
          times.set(kind, tsNs);
          group.records.push({ ...one.record, tsNs });
        }
        flush();
      }
    };
    let number = 0;
    for (const end of ends) {
      const { attempt } = end;
      store.carryStart(runId, made, attempt);
      for (const batch of batchesOf(store, run, files, end, 0, clock)) {
        const since = countsOf(store, made).steps;
        const kept = survivors(store, runId, "steps", since, batch.steps.n, before);
        keepTimes(batch, since, kept, times, clock);
        storeBatch(store, made, attempt, { ...batch, episodes: [], events: [] });
        requireSame(store, made, since, kept, runId);
        put(number++);
      }
    }
    put(Infinity);
    for (const [attempt, own] of cursors) {
      for (const { serial, ...source } of own) {
        storeBatch(store, made, attempt, { ...NO_RECORDS, source, from: 0, to: serial });
      }
    }
    for (const { attempt } of ends) storeFiles(store, made, known, attempt);
    store.carryPoints(runId, made);
    const [had, has] = [countsOf(store, runId), countsOf(store, made)];
    for (const kind of KINDS) {
      if (has[kind] < had[kind]) throw unfilled(runId, `its logs have ${has[kind]} of ${had[kind]} ${kind}`);
    }
    store.replace(runId, made);
  } catch (error) {
    store.discard(made);
    throw error;
  }
  return merged.events.lost.length;
}

/** The records of all logs and files beside the stored ones, and the attempt and the label of each log and file. */
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
  const labels: { attempt: number; label: string }[] = [];
  const logged = { episodes: [] as Logged[], events: [] as Logged[] };
  const note = ({ episodes, events }: ReadBatch, stream: number, batch: number) => {
    const { attempt } = labels[stream]!;
    for (const record of episodes) logged.episodes.push({ record, attempt, stream, batch });
    for (const record of events) logged.events.push({ record, attempt, stream, batch });
    if (logged.episodes.length + logged.events.length <= MAX_MERGED) return;
    throw unfilled(run.runId, `its logs have more than ${MAX_MERGED} episodes and events, too many to be compared`);
  };
  let number = 0;
  for (const end of ends) {
    const stream = labels.push({ attempt: end.attempt, label: "" }) - 1;
    for (const batch of batchesOf(store, run, files, end, 0, clock)) note(batch, stream, number++);
  }
  // A file that several attempts wrote to is read once, as far as the last one had.
  const last = new Map<string, { attempt: number; cursor: SourceCursor }>();
  for (const [attempt, own] of cursors) for (const cursor of own) last.set(cursor.name, { attempt, cursor });
  for (const { attempt } of ends) {
    if (before?.lostCursors.has(attempt)) readWhole(known, attempt, cursors, labels, note);
    const own = [...last.values()].filter((one) => one.attempt === attempt).map(({ cursor }) => cursor);
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
    episodes: merge(storedRecords(store, run.runId, "episodes", head.episodes, before), head.episodes, logged.episodes),
    events: merge(storedRecords(store, run.runId, "events", head.events, before), head.events, logged.events),
  };
  for (const [kind, { lost, further, placed }] of Object.entries(merged)) {
    if (lost.length > 0 && kind === "episodes") {
      throw unfilled(run.runId, `${lost.length} of its ${head.episodes} episodes are in no log or file that is there`);
    }
    if (further.length > 0 && !mayHaveMore) {
      throw unfilled(run.runId, `its logs have ${further.length} ${kind} more than are missing, so they are others`);
    }
    for (const seq of lost) {
      const record = { kind: LOST_KIND, dataJson: '{"reason":"it was damaged, and no log or file has it"}', tsNs: "" };
      placed.push({ seq, stored: false, record, logged: undefined });
    }
    placed.sort((a, b) => a.seq - b.seq);
    // Behind all that has a number: the ends of logs that were not stored yet.
    for (const one of further) placed.push({ seq: placed.length + 1, stored: false, record: one.record, logged: one });
  }
  return { labels, merged };
}

/** Files of an attempt whose cursors are lost, from where earlier attempts were, else from their beginnings; they get cursors again. */
function readWhole(
  known: RunOnDisk,
  attempt: number,
  cursors: Map<number, SourceCursor[]>,
  labels: { attempt: number; label: string }[],
  note: (batch: ReadBatch, stream: number, batchNumber: number) => void,
): void {
  const own = cursors.get(attempt)!;
  const ownNames = new Set(own.map(({ name }) => name));
  const earlier = new Map<string, SourceCursor>();
  for (const [its, found] of cursors) {
    if (its < attempt) { for (const cursor of found) earlier.set(cursor.name, { ...cursor, serial: 0 }); }
  }
  for (const name of ownNames) earlier.delete(name);
  // Read as far as its cursor.
  const later = readLater(known.run, attempt, (of) => cursors.get(of) ?? []);
  const streams = new Map<string, number>();
  const ends = new Map<string, SourceCursor>();
  for (const batch of leftInFiles(known, attempt, [...own, ...earlier.values()])) {
    const { name, label, state } = batch.source!;
    // What is behind a cursor that is there is stored later.
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

/** Whose series the records have that are in no log: those of MLflow's clients, where there were any. */
function callLabel(files: RunFiles): string {
  return readRecord(`${files.control}/mlflow.json`) === undefined ? "" : "mlflow";
}

function unfilled(runId: string, why: string): MosaicError {
  return new MosaicError("failed_precondition", `the telemetry of run ${runId} cannot be filled from its log: ${why}`, {
    hint: "What is stored stays as it is.",
  });
}

type Stored = { seq: number; tsNs: string };

/** The records after `since` that are still there as they were stored, by number. */
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
    // Reading passes over a damaged block.
    for (const row of rows) if (row.seq <= to && !before?.damaged[kind].has(row.seq)) found.set(row.seq, row);
    at = rows.at(-1)?.seq ?? at + 1;
  }
  return found;
}

/** A step that names no time has the one that the store gave it; a missing one has that of the step before it. */
function keepTimes(
  { steps }: ReadBatch,
  since: number,
  kept: Map<number, Stored>,
  times: Map<TelemetryKind, string>,
  clock: { now: number },
): void {
  if (steps.n === 0) return;
  steps.tsNs = Array.from({ length: steps.n }, (_, i) => {
    const known = kept.get(since + i + 1)?.tsNs;
    const time = steps.tsNs?.[i] || known || times.get("steps") || `${Math.floor(clock.now)}000000`;
    times.set("steps", time);
    return time;
  });
}

/** What names the source may differ: it is a table of its own. */
const NOT_COMPARED = new Set(["tsNs", "agentId", "workerId", "policyLabel", "backend"]);

function requireSame(
  store: TelemetryStore,
  made: string,
  since: number,
  kept: Map<number, Stored>,
  runId: string,
): void {
  if (kept.size === 0) return;
  const now = survivors(store, made, "steps", since, store.head(made, "steps") - since);
  const comparable = (row: Stored | undefined) =>
    JSON.stringify(row, (key, value) => NOT_COMPARED.has(key) ? undefined : value);
  for (const [seq, row] of kept) {
    if (comparable(row) === comparable(now.get(seq))) continue;
    throw unfilled(runId, `number ${seq} of its steps is another record in its log`);
  }
}

/** As the daemon does: an event takes the place of records that the store refuses for their content. */
function storeBatch(store: TelemetryStore, runId: string, attempt: number, batch: IngestBatch): void {
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
 * The records of an attempt's log from a position on, up to where its end was seen: the worker of a live attempt writes
 * on meanwhile, and each reading of one repair must see the same records.
 */
function* batchesOf(
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
    clock.now = Deno.lstatSync(files.stdout(attempt)).mtime?.getTime() ?? clock.now;
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
      // All of it is the beginning of a table that the worker has not ended.
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

/** Fills what telemetry.sqlite lacks of a run from the run's own logs (journals), read as its proxies read them. */
import { type Layout, RunFiles } from "../base/layout.ts";
import { MosaicError } from "../base/errors.ts";
import { readRecord } from "../os/untrusted.ts";
import { buildBatch, type BuiltBatch } from "../proxy/batches.ts";
import { Journal } from "../proxy/journal.ts";
import { JournalFile } from "../proxy/journal_file.ts";
import type { ProxyStartFile } from "../proxy/start_file.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { IngestBatch, StepColumns } from "../telemetry/batch.ts";
import { lesserBatches } from "../telemetry/refused.ts";
import { telemetryValidator } from "../telemetry/schemas/validator.ts";
import type { TelemetryStore } from "../telemetry/store.ts";
import type { StoredRun } from "../telemetry/store/completeness.ts";
import { refusesContent } from "../telemetry/store/failures.ts";
import type { TelemetryKind } from "../telemetry/types.ts";
import type { KnownRun } from "./registry_state.ts";

/** What is compared with the counters: metrics and series are made from these. */
const KINDS = ["steps", "episodes", "events"] as const;
const decoder = new TextDecoder();

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
 * Stores what is missing. Where only the end of the newest logs is, it is stored behind what is there. Otherwise all logs
 * are read anew beside the run's telemetry, which they replace if they have everything that it has: numbers of records
 * stay, times that only the store knew are kept.
 *
 * @param clock set to when an attempt's log was last written: the time of records that name none
 * @throws MosaicError `failed_precondition` when the logs do not have what is missing; then nothing has changed
 */
export function refill(
  store: TelemetryStore,
  run: KnownRun,
  files: RunFiles,
  stored: StoredRun | undefined,
  clock: { now: number },
): string {
  const ends = journalEnds(files, run, stored);
  const newest = Math.max(0, ...ends.filter((one) => one.stored > 0).map(({ attempt }) => attempt));
  const missing = lacking(run, ends);
  const before = countsOf(store, run.runId);
  const isWhole = Object.keys(stored?.missing ?? {}).length === 0 && unplaced(ends, stored).length === 0;
  if (isWhole && missing.every(({ attempt }) => attempt >= newest)) {
    for (const { attempt, stored: from } of missing) {
      for (const batch of batchesOf(run, files, attempt, from, clock)) storeBatch(store, run.runId, attempt, batch);
    }
  } else {
    rebuild(store, run, files, ends, clock);
  }
  const after = countsOf(store, run.runId);
  const added = KINDS.map((kind) => `${after[kind] - before[kind]} ${kind}`).join(", ");
  const filled = Object.entries(stored?.missing ?? {}).map(([kind, n]) => `${n} ${kind}`).join(", ");
  return `read the run's log: ${added} added${filled === "" ? "" : `; filled in between: ${filled}`}`;
}

function countsOf(store: TelemetryStore, runId: string): Record<typeof KINDS[number], number> {
  const { steps, episodes, events } = store.summary(runId);
  return { steps, episodes, events };
}

function rebuild(
  store: TelemetryStore,
  run: KnownRun,
  files: RunFiles,
  ends: readonly JournalEnd[],
  clock: { now: number },
): void {
  const { runId } = run;
  for (const { attempt, end, stored } of ends) {
    if (end >= stored) continue;
    throw unfilled(runId, `the log of attempt ${attempt} has ${end} of ${stored} bytes that were stored`);
  }
  const made = `reindex:${runId}`;
  // What an earlier try has left.
  store.discard(made);
  try {
    const times = new Map<TelemetryKind, string>();
    for (const { attempt } of ends) {
      for (const batch of batchesOf(run, files, attempt, 0, clock)) {
        const heads = countsOf(store, made);
        const kept = new Map(
          KINDS.map((kind) => [kind, survivors(store, runId, kind, heads[kind], sizeOf(batch, kind))]),
        );
        for (const kind of KINDS) keepTimes(batch, kind, heads[kind], kept.get(kind)!, times, clock);
        storeBatch(store, made, attempt, batch);
        for (const kind of KINDS) requireSame(store, made, kind, heads[kind], kept.get(kind)!, runId);
      }
    }
    const [had, has] = [countsOf(store, runId), countsOf(store, made)];
    for (const kind of KINDS) {
      if (has[kind] < had[kind]) throw unfilled(runId, `its logs have ${has[kind]} of ${had[kind]} ${kind}`);
    }
    store.replace(runId, made);
  } catch (error) {
    store.discard(made);
    throw error;
  }
}

function unfilled(runId: string, why: string): MosaicError {
  return new MosaicError("failed_precondition", `the telemetry of run ${runId} cannot be filled from its log: ${why}`, {
    hint: "What is stored stays as it is. Records that came by calls (Publish) and from other files are in no log.",
  });
}

/** Read here, so nothing is sealed yet. */
type ReadBatch = IngestBatch & { steps: StepColumns };
type Stored = { seq: number; tsNs: string };

function sizeOf(batch: IngestBatch, kind: typeof KINDS[number]): number {
  return kind === "steps" ? batch.steps.n : batch[kind].length;
}

/** The records after `since` that are still there, by number. */
function survivors(
  store: TelemetryStore,
  runId: string,
  kind: typeof KINDS[number],
  since: number,
  count: number,
): Map<number, Stored> {
  const found = new Map<number, Stored>();
  const to = Math.min(since + count, store.head(runId, kind));
  for (let at = since; at < to;) {
    const rows = store.read(runId, kind, at, to - at) as Stored[];
    // Reading passes over a damaged block.
    for (const row of rows.filter(({ seq }) => seq <= to)) found.set(row.seq, row);
    at = rows.at(-1)?.seq ?? at + 1;
  }
  return found;
}

/** A record that names no time has the one that the store gave it; a missing one has that of the record before it. */
function keepTimes(
  batch: ReadBatch,
  kind: typeof KINDS[number],
  since: number,
  kept: Map<number, Stored>,
  times: Map<TelemetryKind, string>,
  clock: { now: number },
): void {
  const count = sizeOf(batch, kind);
  const own = (i: number) => kind === "steps" ? batch.steps.tsNs?.[i] ?? "" : batch[kind][i]!.tsNs;
  const set: string[] = [];
  for (let i = 0; i < count; i++) {
    const known = kept.get(since + i + 1)?.tsNs;
    const time = own(i) || known || times.get(kind) || `${Math.floor(clock.now)}000000`;
    times.set(kind, time);
    set.push(time);
  }
  if (count === 0) return;
  if (kind === "steps") batch.steps.tsNs = set;
  else batch[kind].forEach((record, i) => record.tsNs = set[i]!);
}

/** What is told of in a refused record's place may differ; so may what names the source, which is a table of its own. */
const NOT_COMPARED = new Set(["tsNs", "agentId", "workerId", "policyLabel", "backend"]);

function requireSame(
  store: TelemetryStore,
  made: string,
  kind: typeof KINDS[number],
  since: number,
  kept: Map<number, Stored>,
  runId: string,
): void {
  if (kept.size === 0) return;
  const now = survivors(store, made, kind, since, store.head(made, kind) - since);
  const comparable = (row: Stored | undefined) =>
    JSON.stringify(row, (key, value) => NOT_COMPARED.has(key) ? undefined : value);
  for (const [seq, row] of kept) {
    if (comparable(row) === comparable(now.get(seq))) continue;
    throw unfilled(runId, `number ${seq} of its ${kind} is another record in its log`);
  }
}

/** As the daemon does: what the store refuses for its content is told of in its place. */
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

/** The records of an attempt's log from a position on. */
function* batchesOf(
  run: KnownRun,
  files: RunFiles,
  attempt: number,
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
  const journal = new Journal(JournalFile.left(files, attempt));
  const final = isEnded(run.state) || attempt < run.attempt;
  try {
    clock.now = Deno.lstatSync(files.stdout(attempt)).mtime?.getTime() ?? clock.now;
  } catch {
    // There is no log.
  }
  try {
    journal.seek(from);
    for (let piece; (piece = journal.next(final)) !== undefined;) {
      const built = buildBatch(piece, reading, final ? { final } : { final, written: journal.size() });
      if (built.to < piece.to) journal.giveBack(built.to);
      // All of it is the beginning of a table that the worker has not ended.
      if (built.to === piece.from && piece.to > piece.from) return;
      yield batchOf(built);
    }
  } finally {
    journal.close();
  }
}

function batchOf({ message }: BuiltBatch): ReadBatch {
  const parsed = <T>(bytes: Uint8Array | undefined, empty: T): T =>
    bytes === undefined || bytes.length === 0 ? empty : JSON.parse(decoder.decode(bytes));
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

/**
 * What the worker's lifecycle records mean for the run: checkpoints, artifacts, a reported failure.
 */
import { parsedObject } from "../../../base/text/json_text.ts";
import type { EventKind } from "../../../registry/event_kinds.ts";
import { REFUSED_KIND } from "../../../records/refused.ts";
import { referenceOf } from "../../../registry/artifacts/announced.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import type { StoredWorkerEvent } from "../../../gen/records/record_types.ts";

/**
 * Record kinds that are entered into the event log, for people and webhooks. (Files have events of
 * their own.)
 */
export const ENTERED_KINDS: readonly EventKind[] = [
  "checkpoint_saved",
  "checkpoint_loaded",
  "run_failed",
  "run_completed",
  "journal_lost",
  "source_observed",
  "source_problem",
  "not_read",
  REFUSED_KIND,
];
/** Events searched in one turn, which takes some milliseconds. */
const WINDOW = 20_000;

/** The run reads an artifact of another: src/dispatch/lineage/lineage.ts. */
export const USE_KIND = "use_artifact";

/** Other kinds that name files: src/registry/artifacts/announced.ts. */
export const FILE_KINDS: readonly string[] = ["artifact", "checkpoint_saved", USE_KIND];

export function isEntered(kind: string): kind is EventKind {
  return ENTERED_KINDS.some((entered) => entered === kind);
}

function dataOf(dataJson: string): Record<string, unknown> {
  return parsedObject(dataJson) ?? {};
}

function firstText(data: Record<string, unknown>, ...keys: string[]): string | undefined {
  for (const key of keys) {
    const value = data[key];
    if (typeof value === "string" && value !== "") return value;
  }
  return undefined;
}

/**
 * The event log's form: `path` and `step` always under these names, whatever the worker calls them.
 */
export function entryData(kind: string, dataJson: string, seq: number): Record<string, unknown> {
  const data = dataOf(dataJson);
  if (kind !== "checkpoint_saved" && kind !== "checkpoint_loaded") {
    return { ...data, telemetry_seq: seq };
  }
  const step = [data.step, data.global_step, data.step_index].find((value) =>
    typeof value === "number"
  );
  return {
    ...data,
    path: checkpointPath(dataJson) ?? null,
    step: step ?? null,
    telemetry_seq: seq,
  };
}

function checkpointPath(dataJson: string): string | undefined {
  return firstText(dataOf(dataJson), "path", "checkpoint_path", "checkpoint", "file");
}

/** The text of a `run_failed` record, at most 500 characters. */
export function failureText(dataJson: string): string {
  return (firstText(dataOf(dataJson), "error", "message", "reason") ?? "").slice(0, 500);
}

/**
 * A run's records of these kinds after a seq, oldest first. Yields undefined after each search, so
 * that the caller can yield to other work.
 */
export function* eventsAfter(
  telemetry: TelemetryLog,
  runId: string,
  kinds: readonly string[],
  after: number,
): Generator<StoredWorkerEvent | undefined> {
  for (let from = after; from < telemetry.head(runId, "events"); from += WINDOW) {
    yield* eventsAt(telemetry, runId, telemetry.eventSeqs(runId, kinds, from, from + WINDOW));
    yield undefined;
  }
}

/** A run's records of these kinds from the newest back, down to those of attempt `since`. */
export function* eventsFromNewest(
  telemetry: TelemetryLog,
  runId: string,
  kinds: readonly string[],
  since: number,
): Generator<StoredWorkerEvent> {
  for (let end = telemetry.head(runId, "events"); end > 0; end -= WINDOW) {
    const seqs = telemetry.eventSeqs(runId, kinds, Math.max(0, end - WINDOW), end);
    for (const event of eventsAt(telemetry, runId, seqs.toReversed())) {
      if (event.attempt < since) return;
      yield event;
    }
  }
}

function* eventsAt(
  telemetry: TelemetryLog,
  runId: string,
  seqs: readonly number[],
): Generator<StoredWorkerEvent> {
  for (const seq of seqs) {
    const [event] = telemetry.read(runId, "events", seq - 1, 1);
    if (event?.seq === seq) yield event;
  }
}

function findLast<T>(
  telemetry: TelemetryLog,
  runId: string,
  kind: EventKind,
  since: number,
  match: (event: StoredWorkerEvent) => T | undefined,
): T | undefined {
  for (const event of eventsFromNewest(telemetry, runId, [kind], since)) {
    const found = match(event);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Path of the newest checkpoint saved in attempt `since` or later for which `placeOf` returns one.
 */
export function newestCheckpoint(
  telemetry: TelemetryLog,
  runId: string,
  since: number,
  placeOf: (path: string, attempt: number) => string | undefined,
): string | undefined {
  return findLast(telemetry, runId, "checkpoint_saved", since, ({ attempt, dataJson }) => {
    const path = checkpointPath(dataJson);
    return path === undefined ? undefined : placeOf(path, attempt);
  });
}

/**
 * Unix milliseconds at which the run's worker saved a checkpoint; undefined if it did not say when.
 */
export function checkpointTime(
  telemetry: TelemetryLog,
  runId: string,
  path: string,
): number | undefined {
  return findLast(telemetry, runId, "checkpoint_saved", 1, (event) => {
    const saved = checkpointPath(event.dataJson);
    if (saved === undefined || (saved !== path && !path.endsWith(`/${saved}`))) return undefined;
    return referenceOf(event)?.at ?? Math.floor(Number(event.tsNs) / 1e6);
  });
}

/** The attempt's own report of a failure; undefined if there is none. */
export function reportedFailure(
  telemetry: TelemetryLog,
  runId: string,
  attempt: number,
): string | undefined {
  return findLast(telemetry, runId, "run_failed", attempt, ({ dataJson }) => failureText(dataJson));
}

/** What the worker's lifecycle records mean to the run: checkpoints, artifacts, its own word that it failed. */
import { parsedObject } from "../../base/json_text.ts";
import type { EventKind } from "../../registry/event_kinds.ts";
import { REFUSED_KIND } from "../../telemetry/refused.ts";
import { referenceOf } from "../../registry/artifacts/announced.ts";
import type { StoredWorkerEvent, TelemetryLog } from "../../telemetry/types.ts";

/** Records that are entered into the event log, where people and webhooks see them. (Files have events of their own.) */
const ENTERED_KINDS: readonly EventKind[] = [
  "checkpoint_saved",
  "checkpoint_loaded",
  "run_failed",
  "run_completed",
  "journal_lost",
  "source_observed",
  "source_problem",
  REFUSED_KIND,
];
const PAGE = 500;

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

/** The event log's form: `path` and `step` under one name each, whatever the worker calls them. */
export function entryData(kind: string, dataJson: string, seq: number): Record<string, unknown> {
  const data = dataOf(dataJson);
  if (kind !== "checkpoint_saved" && kind !== "checkpoint_loaded") return { ...data, telemetry_seq: seq };
  const step = [data.step, data.global_step, data.step_index].find((value) => typeof value === "number");
  return { ...data, path: checkpointPath(dataJson) ?? null, step: step ?? null, telemetry_seq: seq };
}

function checkpointPath(dataJson: string): string | undefined {
  return firstText(dataOf(dataJson), "path", "checkpoint_path", "checkpoint", "file");
}

/** The text of a `run_failed` record, at most 500 characters. */
export function failureText(dataJson: string): string {
  return (firstText(dataOf(dataJson), "error", "message", "reason") ?? "").slice(0, 500);
}

/** A run's lifecycle records from the newest back, down to those of attempt `since`. */
export function* eventsFromNewest(telemetry: TelemetryLog, runId: string, since: number): Generator<StoredWorkerEvent> {
  for (let end = telemetry.head(runId, "events"); end > 0; end -= PAGE) {
    const from = Math.max(0, end - PAGE);
    for (const event of telemetry.read(runId, "events", from, end - from).toReversed()) {
      if (event.attempt < since) return;
      yield event;
    }
  }
}

function findLast<T>(
  telemetry: TelemetryLog,
  runId: string,
  since: number,
  match: (event: StoredWorkerEvent) => T | undefined,
): T | undefined {
  for (const event of eventsFromNewest(telemetry, runId, since)) {
    const found = match(event);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Place of the newest checkpoint saved in attempt `since` or later that `placeOf` finds by its path. */
export function newestCheckpoint(
  telemetry: TelemetryLog,
  runId: string,
  since: number,
  placeOf: (path: string, attempt: number) => string | undefined,
): string | undefined {
  return findLast(telemetry, runId, since, ({ kind, attempt, dataJson }) => {
    const path = kind === "checkpoint_saved" ? checkpointPath(dataJson) : undefined;
    return path === undefined ? undefined : placeOf(path, attempt);
  });
}

/** Unix milliseconds at which the run's worker saved a checkpoint; undefined where it did not say so. */
export function checkpointTime(telemetry: TelemetryLog, runId: string, path: string): number | undefined {
  return findLast(telemetry, runId, 1, (event) => {
    const saved = event.kind === "checkpoint_saved" ? checkpointPath(event.dataJson) : undefined;
    if (saved === undefined || (saved !== path && !path.endsWith(`/${saved}`))) return undefined;
    return referenceOf(event)?.at ?? Math.floor(Number(event.tsNs) / 1e6);
  });
}

/** What the attempt itself said of its failure; undefined when it said nothing of the kind. */
export function saidFailed(telemetry: TelemetryLog, runId: string, attempt: number): string | undefined {
  return findLast(telemetry, runId, attempt, (e) => e.kind === "run_failed" ? failureText(e.dataJson) : undefined);
}

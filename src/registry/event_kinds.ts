/**
 * All kinds of events (docs/reference/observability.md describes when they occur and their data).
 */
import { MosaicError } from "../base/errors.ts";
import { didYouMean } from "../base/text/nearest.ts";

export const EVENT_KINDS = [
  "queued",
  "state",
  "started",
  "metrics",
  "checkpoint_saved",
  "checkpoint_loaded",
  "run_completed",
  "run_failed",
  "records_refused",
  "journal_lost",
  "source_observed",
  "source_problem",
  "not_read",
  "artifact",
  "file_left",
  "code_changed",
  "paused",
  "resumed",
  "edited",
  "alert",
  "rung",
  "gpu_lost",
  "gpu_back",
  "gpu_error",
  "control",
  "preempted",
  "faulted",
  "failed",
  "completed",
  "cancelled",
  "trashed",
  "restored",
  "deleted",
] as const;
export type EventKind = typeof EVENT_KINDS[number];

/** An event to append together with a transition. */
export interface EventToAppend {
  kind: EventKind;
  data: Record<string, unknown>;
}

/**
 * The kinds named in "failed, completed".
 *
 * @throws {MosaicError} `invalid_argument` with a suggestion, for an unknown kind
 */
export function parseEventKinds(text: string): EventKind[] {
  const words = text.split(",").map((word) => word.trim()).filter((word) => word !== "");
  if (words.length === 0) {
    throw new MosaicError("invalid_argument", "no event kind given", {
      hint: `Give kinds such as failed,completed. Kinds: ${EVENT_KINDS.join(", ")}.`,
    });
  }
  return words.map((word) => {
    const kind = EVENT_KINDS.find((known) => known === word);
    if (kind !== undefined) return kind;
    throw new MosaicError(
      "invalid_argument",
      `no kind of event "${word}".${didYouMean(word, EVENT_KINDS)}`,
      {
        hint: `Kinds: ${EVENT_KINDS.join(", ")}.`,
      },
    );
  });
}

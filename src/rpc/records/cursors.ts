/**
 * Cursors: how every stream reads a log after `since_seq`, in chunks that let other calls run in
 * between.
 */
import type { Core } from "../../dispatch/core/core.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { FollowedRun } from "../../telemetry/telemetry_log.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { Form } from "./record_forms.ts";
import type { Chunk, SharedEncodings } from "./shared_encodings.ts";
import { turn } from "../call/turns.ts";
import { firstOf } from "../../wire/http/waiting.ts";

/** A since_seq as a number that SQLite and the ring compare with. */
export function sinceOf(value: bigint): number {
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(value);
}

/** Whether the run has ended or is deleted. */
export function isOver(core: Core, runId: string): boolean {
  const row = core.runs.get(runId);
  return row === undefined || isEnded(row.state);
}

export interface CursorOptions {
  since: number;
  signal: AbortSignal;
  /**
   * - `forever`: waits at the head until the run is deleted (the original's clients subscribe again
   *   at every end)
   * - `until_ended`: waits at the head until the run has ended and everything was read
   * - `to_head`: what is stored now
   */
  follow: "forever" | "until_ended" | "to_head";
  /** Maximum number of rows. */
  limit?: number;
}

/**
 * A run's records after `since` in chunks, ascending and contiguous. @throws MosaicError
 * `out_of_range` below retention, `not_found` if the run is deleted meanwhile
 */
export async function* recordChunks<K extends TelemetryKind>(
  core: Core,
  run: FollowedRun,
  encodings: SharedEncodings,
  form: Form<K>,
  options: CursorOptions,
): AsyncGenerator<Chunk, void> {
  const { runId, deleted } = run;
  const { kind } = form;
  const { signal, follow } = options;
  let cursor = options.since;
  let left = options.limit ?? Infinity;
  const records = encodings.open(form, runId);
  const closed = core.activity.subscribers.opened(
    "grpc",
    kind,
    () => core.records.head(runId, kind) - cursor,
  );
  try {
    while (!signal.aborted && left > 0) {
      deleted.throwIfAborted();
      const head = core.records.head(runId, kind);
      const chunk = records.read(cursor, left);
      if (chunk !== undefined) {
        yield chunk;
        cursor = chunk.last;
        left -= chunk.last - chunk.first + 1;
        await turn();
        continue;
      }
      if (follow === "to_head") return;
      // Everything up to there is damaged.
      cursor = Math.max(cursor, head);
      if (follow === "forever") {
        await core.records.waitBeyond(runId, kind, cursor, signal);
        continue;
      }
      const seen = core.runs.transitionHead();
      const row = core.runs.require(runId);
      // The last rows are stored before the run's end, so a read after the end sees all of them.
      if (isEnded(row.state) && core.records.head(runId, kind) <= cursor) return;
      await firstOf(
        signal,
        (stop) => core.records.waitBeyond(runId, kind, cursor, stop),
        (stop) => core.runs.waitTransitionsBeyond(seen, stop),
      );
    }
  } finally {
    closed();
    records.close();
  }
}

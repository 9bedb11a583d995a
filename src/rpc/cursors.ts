/** Cursors: how every stream reads a log from `since_seq` on, in pieces that leave other calls their turn. */
import type { Core } from "../core/core.ts";
import { MosaicError } from "../errors.ts";
import { isEnded } from "../lifecycle/lifecycle.ts";
import type { StoredOf, TelemetryKind } from "../telemetry/types.ts";
import { firstOf, yieldToOthers } from "./waiting.ts";

/** Rows read at one time; a row may be large, the store's own bound on bytes holds besides. */
const ROWS_A_READ = 512;

/** A since_seq as a number that SQLite and the ring compare with. */
export function sinceOf(value: bigint): number {
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(value);
}

export interface CursorOptions {
  since: number;
  signal: AbortSignal;
  /**
   * - `forever`: waits at the head whatever becomes of the run (the original's clients subscribe again at every end)
   * - `until_ended`: waits at the head until the run has ended and all was read
   * - `to_head`: what is there now
   */
  follow: "forever" | "until_ended" | "to_head";
  /** Most rows to give. */
  limit?: number;
}

/** The rows of a run after `since`, ascending and contiguous. @throws MosaicError `out_of_range` below retention. */
export async function* telemetryRows<K extends TelemetryKind>(
  core: Core,
  runId: string,
  kind: K,
  options: CursorOptions,
): AsyncGenerator<StoredOf[K][], void> {
  const { signal, follow } = options;
  let cursor = options.since;
  let left = options.limit ?? Infinity;
  const closed = core.activity.subscribers.opened("grpc", kind, () => core.telemetry.head(runId, kind) - cursor);
  try {
    while (!signal.aborted && left > 0) {
      const rows = core.telemetry.read(runId, kind, cursor, Math.min(ROWS_A_READ, left));
      if (rows.length > 0) {
        yield rows;
        cursor = rows[rows.length - 1]!.seq;
        left -= rows.length;
        await yieldToOthers();
        continue;
      }
      if (follow === "to_head") return;
      if (follow === "forever") {
        await core.telemetry.waitBeyond(runId, kind, cursor, signal);
        continue;
      }
      const seen = core.registry.transitionHead();
      const row = core.registry.get(runId);
      if (row === undefined) throw new MosaicError("not_found", `run ${runId} was deleted`);
      // The last rows are stored before the run's end is, so a look after the end sees all of them.
      if (isEnded(row.state) && core.telemetry.head(runId, kind) <= cursor) return;
      await firstOf(
        signal,
        (stop) => core.telemetry.waitBeyond(runId, kind, cursor, stop),
        (stop) => core.registry.waitTransitionsBeyond(seen, stop),
      );
    }
  } finally {
    closed();
  }
}

/** What the registry knows of an attempt that a daemon recovers. */
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/row_types.ts";

const PAGE = 1000;

/** Time that the attempt has used, in milliseconds: wall-clock time without its pauses. */
export function usedMs(registry: Registry, row: RunRow, now: number = Date.now()): number {
  let used = 0;
  let since: number | undefined;
  for (const { attempt, to, at } of registry.transitions(row.runId)) {
    if (attempt !== row.attempt) continue;
    if (since !== undefined) used += Math.max(0, at - since);
    since = to === "PAUSED" || to === "INIT" ? undefined : at;
  }
  return used + (since === undefined ? 0 : Math.max(0, now - since));
}

/** Steps that earlier attempts had stored when this one began, from its "started" event. */
export function stepsBefore(registry: Registry, row: RunRow): number {
  let before = 0;
  for (let seq = 0;;) {
    const page = registry.eventsSince(seq, { runId: row.runId, limit: PAGE });
    for (const event of page) {
      seq = event.seq;
      if (event.kind === "started" && event.attempt === row.attempt) {
        before = Number(JSON.parse(event.dataJson).steps_before ?? 0);
      }
    }
    if (page.length < PAGE) return before;
  }
}

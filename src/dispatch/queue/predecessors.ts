/**
 * Asks turn.ts whether it is a run's turn, with what the registry knows of the run's predecessors.
 */
import { planIfReadable } from "../../config/plan.ts";
import type { Logger } from "../../base/log.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { SWEEP } from "../../config/queue_fields.ts";
import type { SweepState } from "../../registry/sweeps/sweep_rows.ts";
import { isEnded, LIVE_STATES, PRUNED } from "../../registry/lifecycle/lifecycle.ts";
import { type Predecessor, type Turn, turnOf, type Wishes } from "./turn.ts";

/**
 * Transitions that are read one by one; after more of them, everything known is looked up again.
 */
const TRANSITIONS = 1000;
/** Predecessors in memory. */
const KNOWN = 20_000;
/** How long the end of a sweep is not looked up again. */
const SWEEP_MS = 1000;

export interface TurnsOptions {
  registry: Registry;
  log: Logger;
  /** A failed run is about to get another attempt. */
  isRepeated: (row: RunRow) => boolean;
}

export class Turns {
  readonly #options: TurnsOptions;
  /** How predecessors stand, as of the transition `#head`. */
  readonly #known = new Map<string, Predecessor>();
  readonly #sweeps = new Map<string, { at: number; sweep: Predecessor }>();
  #head = 0;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** @param wishes result of `wishesOf` */
  of(wishes: Wishes): Turn {
    if (wishes.after.length > 0) this.#forgetChanged();
    return turnOf(wishes, (runId) => this.#predecessor(runId), Date.now());
  }

  /** Enters that a run's turn never comes. @returns its row, which has ended */
  end(runId: string, { as, reason, hint }: Turn & { t: "over" }): RunRow {
    const { registry, log } = this.#options;
    log.info({ run_id: runId, reason }, "a waiting run has ended");
    const data = as === "failed" ? { reason, hint } : { reason };
    return registry.apply(runId, { type: as, reason }, { hint }, () => ({ kind: as, data }));
  }

  #forgetChanged(): void {
    const { registry } = this.#options;
    const head = registry.transitionHead();
    if (head === this.#head) return;
    const changed = registry.transitionsSince(this.#head, TRANSITIONS);
    if (changed.length === TRANSITIONS || this.#known.size > KNOWN) this.#known.clear();
    for (const { runId } of changed) this.#known.delete(runId);
    this.#head = head;
  }

  #predecessor(runId: string): Predecessor {
    if (runId.startsWith(SWEEP)) return this.#sweep(runId);
    const known = this.#known.get(runId);
    if (known !== undefined) return known;
    const read = this.#read(runId);
    this.#known.set(runId, read);
    return read;
  }

  /** Its end is no transition, so what is known is good for a moment. */
  #sweep(ref: string): Predecessor {
    const known = this.#sweeps.get(ref);
    if (known !== undefined && performance.now() - known.at < SWEEP_MS) return known.sweep;
    const { sweeps } = this.#options.registry;
    const row = sweeps.get(ref.slice(SWEEP.length));
    const sweep = {
      runId: ref,
      name: row?.name ?? "",
      polled: true,
      ...sweepEnd(row && { ...row, counts: sweeps.counts(row.sweepId) }),
    };
    if (this.#sweeps.size > KNOWN) this.#sweeps.clear();
    this.#sweeps.set(ref, { at: performance.now(), sweep });
    return sweep;
  }

  #read(runId: string): Predecessor {
    const { registry, isRepeated } = this.#options;
    const row = registry.get(runId);
    if (row !== undefined) {
      const lives = !isEnded(row.state) || (row.state === "FAULTED" && isRepeated(row));
      return {
        runId,
        name: row.name,
        ...(lives ? { end: "lives", how: "" } : endOf(row.state, row.reason)),
      };
    }
    const [deleted] = registry.eventsSince(0, { runId, kinds: ["deleted", "trashed"], limit: 1 });
    if (deleted === undefined) {
      return {
        runId,
        name: "",
        end: "forgotten",
        how: "was deleted, and how it had ended is not known any more",
      };
    }
    const { state, reason } = JSON.parse(deleted.dataJson) as {
      state: string;
      reason: string | null;
    };
    const { end, how } = endOf(state, reason);
    return { runId, name: deleted.runName, end, how: `${how} and was deleted` };
  }
}

/**
 * A sweep ends well when it has finished and none of its trials has failed, was refused or
 * cancelled (but for early stopping).
 */
export function sweepEnd(
  sweep: { state: SweepState; counts: Record<string, number> } | undefined,
): Pick<Predecessor, "end" | "how"> {
  if (sweep === undefined) return { end: "forgotten", how: "is not known any more" };
  const { state, counts } = sweep;
  const isOver = state === "finished" || state === "cancelled";
  if (!isOver || LIVE_STATES.some((live) => (counts[live] ?? 0) > 0)) {
    return { end: "lives", how: "" };
  }
  if (state === "cancelled") return { end: "not_ok", how: "was cancelled" };
  const [failed, cancelled, refused] = [
    counts.FAULTED ?? 0,
    counts.CANCELLED ?? 0,
    counts.refused ?? 0,
  ];
  if (failed + cancelled + refused === 0) return { end: "ok", how: "ended well" };
  const parts = Object.entries({ failed, cancelled, refused }).filter(([, n]) => n > 0)
    .map(([how, n]) => `${n} ${how}`);
  const trials = failed + cancelled + refused === 1 ? "trial" : "trials";
  return { end: "not_ok", how: `ended with ${parts.join(", ")} ${trials}` };
}

function endOf(state: string, reason: string | null): Pick<Predecessor, "end" | "how"> {
  if (state === "TERMINATED") return { end: "ok", how: "ended well" };
  if (state === "CANCELLED" && reason === PRUNED) return { end: "ok", how: "was pruned" };
  const verb = state === "CANCELLED" ? "was cancelled" : "failed";
  return { end: "not_ok", how: reason === null ? verb : `${verb}: ${reason}` };
}

/**
 * Null for a run that wishes nothing now: order concerns the first start alone, and so does a
 * deadline that does not stop.
 */
export function wishesOf(row: RunRow): Wishes | null {
  // Reading the configs of a long queue takes seconds. A stored config is compact JSON.
  if (!row.configJson.includes('"queue":{')) return null;
  const queue = planIfReadable(row.configJson)?.queue;
  if (queue === undefined) return null;
  const isFirst = row.startedAt === null;
  const wishes: Wishes = {
    after: isFirst ? queue.after : [],
    afterNever: queue.afterNever,
    beginAt: isFirst ? queue.beginAt(row.createdAt) : null,
    deadlineAt: isFirst || queue.deadlineStops ? queue.deadlineAt(row.createdAt) : null,
  };
  return wishes.after.length === 0 && wishes.beginAt === null && wishes.deadlineAt === null
    ? null
    : wishes;
}

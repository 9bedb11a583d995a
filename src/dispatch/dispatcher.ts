/**
 * Starts waiting runs as soon as there is room: it is woken by a submission, by a run that ends or registers, and by the
 * end of a back-off. A pass every two seconds is the safety net only.
 */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Registry } from "../registry/registry.ts";
import type { RunRow } from "../registry/row_types.ts";
import { type QueueEntry, schedule, type WaitingRun } from "./scheduler.ts";
import type { Placer } from "./launch/placed/placer.ts";
import type { Starter } from "./launch/starter.ts";
import type { Supervisor } from "./attempt/supervisor.ts";

const SAFETY_NET_MS = 2000;
/** Longest wait that a timer is set for; the safety net sees to the rest. */
const MAX_TIMER_MS = 60_000;
/** After a pass, dispatch rests for so many times what it took: at most a tenth of the thread's time goes into it. */
const PASS_REST = 9;

/** After trouble that passes, such as a full disk. */
const TROUBLE_WAIT_MS = 2000;

export interface DispatcherOptions {
  registry: Registry;
  log: Logger;
  supervisor: Supervisor;
  starter: Starter;
  maxRuns: number;
  maxStarting: number;
  /** Runs that engines place are not started here. */
  placer: Pick<Placer, "places" | "waiting">;
  /** Tries to recover what an earlier daemon has left; answers whether the host's GPUs and how many runs are still missing. */
  recovering: () => { gpus: boolean; runs: number };
}

/** Milliseconds of a clock that nobody sets; what is on record is wall-clock time, and survives a restart. */
const clock = () => performance.now();

/** When the back-off is over. A wall clock that was set back does not make it longer than it was meant to be. */
function backOffEnd(row: RunRow): number | null {
  if (row.notBefore === null) return null;
  return clock() + Math.min(row.notBefore - Date.now(), row.notBefore - row.updatedAt);
}

function waitingOf(row: RunRow): WaitingRun {
  return {
    runId: row.runId,
    priority: row.priority,
    createdAt: row.createdAt,
    gpusRequested: row.gpusRequested,
    gpusMandatory: row.gpusMandatory,
    heldSlots: row.gpuSlots,
    notBefore: backOffEnd(row),
    waitingFor: row.notBefore === null ? "" : `its next attempt at ${new Date(row.notBefore).toISOString()}`,
  };
}

/** A cancellation that is not entered yet keeps a run from being started all the same, and so does damage until the run is quarantined for it. */
function waits(row: RunRow): boolean {
  return row.state === "INIT" && row.cancelRequestedAt === null && row.damaged.length === 0;
}

const withoutFigures = (text = "") => text.replace(/[\d.]+/g, "");

export class Dispatcher {
  readonly #options: DispatcherOptions;
  /** INIT runs, so that a long queue is not read from the database at every event. */
  readonly #waiting = new Map<string, WaitingRun>();
  /** Those between the decision to start them and HANDSHAKE. */
  readonly #starting = new Map<string, Promise<void>>();
  /** Why runs could not be started when that was last tried. */
  readonly #troubles = new Map<string, string>();
  #queue = new Map<string, QueueEntry>();
  #pass: "none" | "due" = "none";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #net: ReturnType<typeof setInterval> | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #passedAt = 0;
  /** What the last pass took, milliseconds. */
  #passMs = 0;
  #closed = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Reads the queue of waiting runs, and begins. */
  start(): void {
    this.#readQueue();
    this.#net = setInterval(() => {
      // Only a defect could have made the two differ.
      const known = this.#waiting.size + this.#starting.size + this.#options.placer.waiting;
      if ((this.#options.registry.countByState().INIT ?? 0) !== known) {
        this.#readQueue();
      }
      this.#runPass();
    }, SAFETY_NET_MS);
    this.#runPass();
  }

  /** Starts nothing more, and waits for what is being started. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#net);
    clearTimeout(this.#timer);
    clearTimeout(this.#rest);
    await Promise.all(this.#starting.values());
  }

  get queueLength(): number {
    return this.#waiting.size;
  }

  /** The place that a new run of this priority gets; those that wait for their back-off to end count as before it. */
  placeFor(priority: number): number {
    let before = 0;
    for (const run of this.#waiting.values()) if (run.priority >= priority) before++;
    return before + 1;
  }

  /** Place and reason of a run that waits; undefined when it does not. */
  placeOf(runId: string): QueueEntry | undefined {
    return this.#queue.get(runId);
  }

  /** A run's row has changed such that it waits, or waits no longer, or has made room. */
  changed(row: RunRow): void {
    if (waits(row)) this.#waiting.set(row.runId, waitingOf(row));
    else this.#waiting.delete(row.runId);
    this.wake();
  }

  /** Dispatches soon, once for all that happens in this turn. */
  wake(): void {
    if (this.#pass === "due" || this.#closed) return;
    this.#pass = "due";
    // A pass costs as much as the queue is long, and thousands may be submitted at once.
    const restMs = this.#passMs < 1 ? 0 : this.#passedAt + PASS_REST * this.#passMs - performance.now();
    if (restMs <= 0) queueMicrotask(() => this.#runPass());
    else this.#rest = setTimeout(() => this.#runPass(), restMs);
  }

  #readQueue(): void {
    this.#waiting.clear();
    for (const row of this.#options.registry.live()) {
      if (!waits(row) || this.#starting.has(row.runId) || this.#options.placer.places(row)) continue;
      this.#waiting.set(row.runId, waitingOf(row));
    }
  }

  #runPass(): void {
    this.#pass = "none";
    clearTimeout(this.#rest);
    if (this.#closed) return;
    const began = performance.now();
    this.#dispatch();
    this.#passedAt = performance.now();
    this.#passMs = this.#passedAt - began;
  }

  #dispatch(): void {
    const { registry, supervisor, maxRuns, maxStarting, log } = this.#options;
    try {
      const recovering = this.#options.recovering();
      const slots = registry.gpuSlots();
      const waiting = [...this.#waiting.values()].filter((run) => !this.#starting.has(run.runId));
      const { start, queue, wakeAt } = schedule(waiting, {
        now: clock(),
        freeSlots: slots.filter((slot) => slot.runId === null).map((slot) => slot.slot),
        totalSlots: slots.length,
        slotsKnown: !recovering.gpus,
        running: supervisor.sizeHere + recovering.runs + this.#starting.size,
        maxRuns,
        starting: supervisor.registering + this.#starting.size,
        maxStarting,
      });
      for (const { runId, slots } of start) this.#start(runId, slots);
      this.#queue = new Map(queue.map((entry) => [entry.runId, entry]));
      this.#wakeAt(wakeAt);
    } catch (error) {
      log.error({ error: messageOf(error) }, "dispatch failed; the next pass tries again");
    }
  }

  #wakeAt(at: number | undefined): void {
    clearTimeout(this.#timer);
    if (at === undefined) return;
    this.#timer = setTimeout(() => this.#runPass(), Math.min(MAX_TIMER_MS, Math.max(1, at - clock())));
  }

  #start(runId: string, slots: readonly number[]): void {
    const { registry, supervisor, starter, log } = this.#options;
    const row = registry.get(runId);
    this.#waiting.delete(runId);
    if (row === undefined || !waits(row)) return;
    const claimed = slots.length === 0 ? row : registry.claimGpus(runId, slots);
    const started = starter.start(claimed, supervisor)
      .then(() => undefined, (error) => {
        const why = messageOf(error);
        // Once per run and trouble, whatever its figures are: it may last for hours.
        if (withoutFigures(this.#troubles.get(runId)) !== withoutFigures(why)) {
          log.warn({ run_id: runId, error: why }, "run cannot be started for now");
        }
        return why;
      })
      .then((trouble) => {
        this.#starting.delete(runId);
        if (trouble === undefined) this.#troubles.delete(runId);
        else this.#troubles.set(runId, trouble);
        const now = registry.get(runId);
        if (now !== undefined && waits(now)) {
          const waits = trouble === undefined ? {} : { notBefore: clock() + TROUBLE_WAIT_MS, waitingFor: trouble };
          this.#waiting.set(runId, { ...waitingOf(now), ...waits });
        }
        this.wake();
      });
    this.#starting.set(runId, started);
  }
}

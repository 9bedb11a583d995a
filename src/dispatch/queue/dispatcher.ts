/**
 * Starts waiting runs as soon as they can run. Woken by a submission, by a run that ends or
 * registers, and by the end of a back-off; a pass every two seconds is only a safety net.
 */
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import { type GpuSlot, type NewShare, partLeft } from "../../registry/gpus/gpu_rows.ts";
import { type SharePolicy, wishOf } from "../gpus/sharing.ts";
import type { FreeSlots } from "../gpus/free_check.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import { type QueueEntry, schedule, type WaitingRun } from "./scheduler.ts";
import type { Placer } from "../launch/placed/placer.ts";
import type { Starter } from "../launch/starter.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import type { Turn, Wishes } from "./turn.ts";
import { type Turns, wishesOf } from "./predecessors.ts";
import type { Preemptions } from "./preemptions.ts";
import type { DiskQuota } from "./disk_quota.ts";
import { sweepOf, type Users } from "./users.ts";
import type { Holder } from "./wait_reasons.ts";

const SAFETY_NET_MS = 2000;
/** Longest timer; the safety net covers longer waits. */
const MAX_TIMER_MS = 60_000;
/**
 * After a pass, dispatch pauses for this many times the pass's duration: it takes at most a tenth
 * of the thread's time.
 */
const PASS_REST = 9;

/** Wait after a temporary trouble, such as a full disk. */
const TROUBLE_WAIT_MS = 2000;

export interface DispatcherOptions {
  registry: Registry;
  log: Logger;
  supervisor: Supervisor;
  starter: Starter;
  maxRuns: number;
  maxStarting: number;
  gpus: Pick<GpuPool, "reallyFree" | "deviceOf" | "closeness" | "lock" | "keepLocks">;
  sharing?: SharePolicy | undefined;
  /** Runs placed by engines are not started here. */
  placer: Pick<Placer, "places" | "waiting">;
  turns: Turns;
  users: Users;
  disk: Pick<DiskQuota, "over">;
  preemptions: Preemptions;
  /** A waiting run has ended. */
  onEnded: (row: RunRow) => void;
  /**
   * Retries the recovery; returns whether the host's GPUs, and how many runs, are still pending.
   */
  recovering: () => { gpus: boolean; runs: number };
}

/**
 * A monotonic clock in milliseconds. Recorded times are wall-clock time, because they must survive
 * a restart.
 */
const clock = () => performance.now();

/** When the back-off ends. Setting the wall clock back does not make it longer than intended. */
function backOffEnd(row: RunRow): number | null {
  if (row.notBefore === null) return null;
  return clock() + Math.min(row.notBefore - Date.now(), row.notBefore - row.updatedAt);
}

interface Waiting extends WaitingRun {
  /** Null: it has none. */
  wishes: Wishes | null;
  /** The sweep it is a trial of; "": none. */
  sweep: string;
}

function waitingOf(row: RunRow, users: Users): Waiting {
  return {
    rank: 0,
    owner: users.ownerOf(row),
    wishes: wishesOf(row),
    sweep: sweepOf(row.tags),
    runId: row.runId,
    priority: row.priority,
    createdAt: row.createdAt,
    gpusRequested: row.gpusRequested,
    gpusMandatory: row.gpusMandatory,
    share: wishOf(row),
    heldSlots: row.gpuSlots,
    notBefore: backOffEnd(row),
    waitingFor: row.notBefore === null
      ? ""
      : `its next attempt at ${new Date(row.notBefore).toISOString()}`,
  };
}

/**
 * A requested cancellation that is not entered yet also keeps a run from being started; so does
 * damage, until the run is quarantined.
 */
function waits(row: RunRow): boolean {
  return row.state === "INIT" && row.cancelRequestedAt === null && row.damaged.length === 0;
}

const withoutFigures = (text = "") => text.replace(/[\d.]+/g, "");

export class Dispatcher {
  readonly #options: DispatcherOptions;
  /** INIT runs in memory, so that events do not read a long queue from the database. */
  readonly #waiting = new Map<string, Waiting>();
  /** How many of them have each priority. */
  readonly #priorities = new Map<number, number>();
  /** Runs between the decision to start them and HANDSHAKE. */
  readonly #starting = new Map<string, Promise<void>>();
  /** Errors of the last attempts to start runs. */
  readonly #troubles = new Map<string, string>();
  /** Names of the runs that hold GPUs. */
  readonly #names = new Map<string, string>();
  #queue = new Map<string, QueueEntry>();
  #pass: "none" | "due" = "none";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #net: ReturnType<typeof setInterval> | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #passedAt = 0;
  /** Duration of the last pass, milliseconds. */
  #passMs = 0;
  #closed = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Reads the queue of waiting runs and starts dispatching. */
  start(): void {
    this.#options.users.start();
    this.#options.preemptions.start();
    this.#readQueue();
    this.#net = setInterval(() => {
      // A difference between the two would be a defect.
      const known = this.#waiting.size + this.#starting.size + this.#options.placer.waiting;
      if ((this.#options.registry.countByState().INIT ?? 0) !== known) {
        this.#readQueue();
      }
      this.#runPass();
    }, SAFETY_NET_MS);
    this.#runPass();
  }

  /** Starts nothing more, and waits for starts in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#options.preemptions.close();
    clearInterval(this.#net);
    clearTimeout(this.#timer);
    clearTimeout(this.#rest);
    await Promise.all(this.#starting.values());
  }

  get queueLength(): number {
    return this.#waiting.size;
  }

  /** The position for a new run of this priority; runs in back-off count as before it. */
  placeFor(priority: number): number {
    let before = 0;
    for (const [of, runs] of this.#priorities) if (of >= priority) before += runs;
    return before + 1;
  }

  /** Position and reason of a waiting run; undefined for others. */
  placeOf(runId: string): QueueEntry | undefined {
    return this.#queue.get(runId);
  }

  /** A run's row has changed: it begins or ceases to wait, or has freed its place. */
  changed(row: RunRow): void {
    this.#options.users.changed(row);
    this.#options.preemptions.changed(row);
    if (waits(row)) this.#enter(waitingOf(row, this.#options.users));
    else this.#leave(row.runId);
    this.wake();
  }

  #enter(run: Waiting): void {
    this.#leave(run.runId);
    this.#waiting.set(run.runId, run);
    this.#priorities.set(run.priority, (this.#priorities.get(run.priority) ?? 0) + 1);
  }

  #leave(runId: string): void {
    const run = this.#waiting.get(runId);
    if (run === undefined) return;
    this.#waiting.delete(runId);
    const left = this.#priorities.get(run.priority)! - 1;
    if (left === 0) this.#priorities.delete(run.priority);
    else this.#priorities.set(run.priority, left);
  }

  /** Dispatches soon, once for all calls in this turn. */
  wake(): void {
    if (this.#pass === "due" || this.#closed) return;
    this.#pass = "due";
    // The cost of a pass grows with the queue, and thousands may be submitted at once.
    const restMs = this.#passMs < 1
      ? 0
      : this.#passedAt + PASS_REST * this.#passMs - performance.now();
    if (restMs <= 0) queueMicrotask(() => this.#runPass());
    else this.#rest = setTimeout(() => this.#runPass(), restMs);
  }

  #readQueue(): void {
    this.#waiting.clear();
    this.#priorities.clear();
    for (const row of this.#options.registry.live()) {
      if (!waits(row) || this.#starting.has(row.runId) || this.#options.placer.places(row)) {
        continue;
      }
      this.#enter(waitingOf(row, this.#options.users));
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
    const { registry, supervisor, maxRuns, maxStarting, log, users, preemptions } = this.#options;
    try {
      const recovering = this.#options.recovering();
      const slots = registry.gpus.slots();
      this.#options.gpus.keepLocks(
        slots.filter(({ runId, shares }) => runId !== null || shares.length > 0).map((
          { slot },
        ) => slot),
      );
      const shared = new Map(
        slots.flatMap((slot) => slot.shares.length === 0 ? [] : [[slot.slot, partLeft(slot)]]),
      );
      const memoryOf = (slot: number) => this.#options.gpus.deviceOf(slot)?.memoryMb ?? null;
      const waiting = [...this.#waiting.values()].filter((run) => !this.#starting.has(run.runId))
        .map((run) => this.#turn(run)).filter((run) => run !== undefined);
      const ranks = users.ranks(waiting);
      const ranked = ranks.size === 0
        ? waiting
        : waiting.map((run) => ({ ...run, rank: ranks.get(run.runId)! }));
      const free = this.#reallyFree(
        slots.filter((slot) => slot.runId === null).map((slot) => slot.slot),
        waiting,
      );
      const { start, queue, blocked, freeGpus, wakeAt } = schedule(ranked, {
        now: clock(),
        freeSlots: free.usable.filter((slot) => !shared.has(slot)),
        rooms: free.usable.flatMap((slot) => {
          const left = shared.get(slot);
          return left === undefined ? [] : [{ slot, left, memoryMb: memoryOf(slot) }];
        }),
        memoryOf,
        closeness: (a, b) => this.#options.gpus.closeness(a, b),
        sharing: this.#options.sharing ?? "pack",
        used: free.used,
        asking: free.asking,
        likely: free.likely?.filter((slot) => !shared.has(slot)).length,
        holders: this.#holders(slots),
        gpusOf: users.gpusOf(slots),
        maxGpusPerUser: users.maxGpus,
        runsOf: users.runsOf(this.#starting.keys()),
        maxRunsPerUser: users.maxRuns,
        overDisk: this.#options.disk.over,
        totalSlots: slots.length,
        slotsKnown: !recovering.gpus,
        running: supervisor.sizeHere + recovering.runs + this.#starting.size,
        maxRuns,
        starting: supervisor.registering + this.#starting.size,
        maxStarting,
      });
      for (const { runId, slots, shares } of start) this.#start(runId, slots, shares);
      this.#queue = new Map(queue.map((entry) => [entry.runId, entry]));
      this.#wakeAt(wakeAt);
      const running = supervisor.sizeHere + recovering.runs + this.#starting.size;
      const isUnsure = free.asking && free.likely === undefined;
      preemptions.check(blocked, { places: maxRuns - running, gpus: freeGpus }, isUnsure);
    } catch (error) {
      log.error({ error: messageOf(error) }, "dispatch failed; the next pass tries again");
    }
  }

  /** The drivers are asked only if a run wants a card now. */
  #reallyFree(free: number[], waiting: readonly WaitingRun[]): FreeSlots {
    const now = clock();
    const isAsked = ({ gpusRequested, heldSlots, notBefore }: WaitingRun) =>
      gpusRequested > 0 && heldSlots.length === 0 && (notBefore ?? 0) <= now;
    const wanting = free.length === 0 ? [] : waiting.filter(isAsked);
    if (wanting.length === 0) return { usable: free, used: [], asking: false };
    return this.#options.gpus.reallyFree(
      free,
      `${wanting.length} ${wanting[0]!.runId}`,
      () => this.wake(),
    );
  }

  /**
   * The run, held back until its turn by its own wishes; undefined if that never comes and it has
   * ended.
   */
  #turn(run: Waiting): Waiting | undefined {
    if (run.wishes === null) return run;
    const turn = this.#options.turns.of(run.wishes);
    switch (turn.t) {
      case "due":
        return run;
      case "held": {
        const until = turn.until === null ? Infinity : clock() + turn.until - Date.now();
        return { ...run, notBefore: Math.max(run.notBefore ?? 0, until), waitingFor: turn.why };
      }
      case "over":
        return this.#end(run, turn);
    }
  }

  #end(run: Waiting, turn: Turn & { t: "over" }): Waiting | undefined {
    try {
      this.#options.onEnded(this.#options.turns.end(run.runId, turn));
      return undefined;
    } catch (error) {
      // For example a full disk: the next pass tries again, and the run does not start meanwhile.
      return {
        ...run,
        notBefore: Infinity,
        waitingFor: `the entry of its end: ${messageOf(error)}`,
      };
    }
  }

  #holders(slots: readonly GpuSlot[]): Holder[] {
    const held = new Map<string, number>();
    for (const { runId, shares } of slots) {
      const parts = runId === null ? shares : [{ runId, part: 1 }];
      for (const { runId, part } of parts) held.set(runId, (held.get(runId) ?? 0) + part);
    }
    for (const runId of this.#names.keys()) if (!held.has(runId)) this.#names.delete(runId);
    return [...held].map(([runId, gpus]) => {
      const name = this.#names.get(runId) ?? this.#options.registry.get(runId)?.name ?? "";
      this.#names.set(runId, name);
      return { runId, name, gpus };
    });
  }

  #wakeAt(at: number | undefined): void {
    clearTimeout(this.#timer);
    if (at === undefined) return;
    this.#timer = setTimeout(
      () => this.#runPass(),
      Math.min(MAX_TIMER_MS, Math.max(1, at - clock())),
    );
  }

  #start(runId: string, slots: readonly number[], shares: readonly NewShare[] = []): void {
    const { registry, supervisor, starter, log, preemptions } = this.#options;
    const row = registry.get(runId);
    if (
      row !== undefined && waits(row) &&
      !this.#options.gpus.lock([...slots, ...shares.map(({ slot }) => slot)])
    ) {
      const notBefore = clock() + TROUBLE_WAIT_MS;
      const waitingFor = "another mosaic daemon of this host, which has just given out its GPU";
      this.#enter({ ...waitingOf(row, this.#options.users), notBefore, waitingFor });
      this.wake();
      return;
    }
    this.#leave(runId);
    if (row === undefined || !waits(row)) return;
    if (slots.length > 0) registry.gpus.claim(runId, slots);
    if (shares.length > 0) registry.gpus.claimShares(runId, shares);
    const started = starter.start(registry.require(runId), supervisor)
      .then(() => undefined, (error) => {
        const why = messageOf(error);
        // Log once per run and trouble, ignoring numbers in the text: the trouble may last for
        // hours.
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
        if (now !== undefined) preemptions.tried(now);
        if (now !== undefined && waits(now)) {
          const waits = trouble === undefined
            ? {}
            : { notBefore: clock() + TROUBLE_WAIT_MS, waitingFor: trouble };
          this.#enter({ ...waitingOf(now, this.#options.users), ...waits });
        }
        this.wake();
      });
    this.#starting.set(runId, started);
  }
}

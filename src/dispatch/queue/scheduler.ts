/**
 * Decides which runs start now: a pure function of the waiting runs and of free resources.
 * Higher priority first, then by fair shares if there are any, then first come, first served. A run
 * whose GPUs are mandatory gets all of them or waits, and while it waits no run behind it may take
 * a GPU: otherwise a stream of small runs would starve it for ever. Runs that need no GPU pass it.
 * A run whose GPUs are not mandatory takes what is free, possibly none.
 */

import type { Blocked } from "./preempt.ts";
import {
  placed,
  type Room,
  roomText,
  type SharePolicy,
  type ShareWish,
  wishText,
} from "../gpus/sharing.ts";
import { type Closeness, closest } from "../gpus/closest.ts";
import { fits, type NewShare } from "../../registry/gpus/gpu_rows.ts";
import { type Holder, waitText } from "./wait_reasons.ts";

export interface WaitingRun {
  runId: string;
  priority: number;
  /** Among runs of its priority, by fair shares (shares.ts); the same for all without them. */
  rank: number;
  /** Who is charged for its GPUs. */
  owner: string;
  /** Unix milliseconds; ties are broken by run id. */
  createdAt: number;
  gpusRequested: number;
  gpusMandatory: boolean;
  /** What it declares of each card; undefined: it wants whole cards. */
  share?: ShareWish | undefined;
  /** Slots that it already holds from an interrupted start. */
  heldSlots: readonly number[];
  /**
   * It may not start before this time (of the clock of `now`): back-off of the restart policy,
   * temporary trouble, its own wish (turn.ts). Infinity: not before something else happens.
   */
  notBefore: number | null;
  /** What it waits for until then, as text for people. */
  waitingFor: string;
}

export interface Capacity {
  /** Milliseconds of any clock. */
  now: number;
  freeSlots: readonly number[];
  /** Cards that runs share already, and nobody else uses. */
  rooms?: readonly Room[];
  /** Memory of a free slot's card, MiB; null: not known. */
  memoryOf?: (slot: number) => number | null;
  /** How close two slots' cards are; 0: not known. */
  closeness?: Closeness;
  sharing?: SharePolicy;
  /** How many each owner has, and the most for one. */
  gpusOf: ReadonlyMap<string, number>;
  maxGpusPerUser: number;
  /** Running runs of each owner, and the most of one. */
  runsOf: ReadonlyMap<string, number>;
  maxRunsPerUser: number;
  /** Owners beyond `--max-disk-per-user`, and how. */
  overDisk?: ReadonlyMap<string, string>;
  /** What others than runs use of further slots, as text for people. */
  used: readonly string[];
  /**
   * Too little is known of whether the slots are free: none is assigned before the drivers answer.
   */
  asking: boolean;
  /** Then: how many are free by what was known last; undefined if it was not known of all. */
  likely?: number | undefined;
  /** Who has the others. */
  holders: readonly Holder[];
  /** All slots of the host, free or not. */
  totalSlots: number;
  /** False while the slots are an earlier daemon's: then none is assigned. */
  slotsKnown: boolean;
  /** Runs that have processes. */
  running: number;
  maxRuns: number;
  /**
   * Runs whose proxy has not registered yet. If too many start at once, each would miss its
   * handshake limit.
   */
  starting: number;
  maxStarting: number;
}

export interface Start {
  runId: string;
  /** Slots to claim for it; none if it already holds some. */
  slots: number[];
  /** Parts of cards to claim for it instead. */
  shares?: NewShare[];
}

export interface QueueEntry {
  runId: string;
  /** 1 is next. */
  position: number;
  /** What it waits for, as text for people. */
  waitingFor: string;
}

export interface Schedule {
  start: Start[];
  queue: QueueEntry[];
  /** Runs that only lack room, in the order in which they would start. */
  blocked: Blocked[];
  /**
   * GPUs that are free after these starts; while the drivers are asked, those that are likely to
   * be.
   */
  freeGpus: number;
  /** When the next back-off or wish ends. */
  wakeAt: number | undefined;
}

function inOrder(a: WaitingRun, b: WaitingRun): number {
  return b.priority - a.priority || a.rank - b.rank || a.createdAt - b.createdAt ||
    (a.runId < b.runId ? -1 : 1);
}

export function schedule(waiting: readonly WaitingRun[], capacity: Capacity): Schedule {
  const isDue = (run: WaitingRun) => run.notBefore === null || run.notBefore <= capacity.now;
  const due = waiting.filter(isDue).toSorted(inOrder);
  const backingOff = waiting.filter((run) => !isDue(run)).toSorted((a, b) =>
    a.notBefore! - b.notBefore! || inOrder(a, b)
  );

  const free = capacity.freeSlots.toSorted((a, b) => a - b);
  const rooms = (capacity.rooms ?? []).map((room) => ({ ...room }));
  const whole = (slot: number): Room => ({
    slot,
    left: 1,
    memoryMb: capacity.memoryOf?.(slot) ?? null,
  });
  const sharesFor = (run: WaitingRun, wish: ShareWish): NewShare[] | undefined =>
    placed(wish, run.gpusRequested, [...rooms, ...free.map(whole)], capacity.sharing ?? "pack");
  /** Takes the shares off what is free. */
  const take = (shares: readonly NewShare[]) => {
    for (const { slot, part } of shares) {
      const at = free.indexOf(slot);
      if (at >= 0) rooms.push(whole(free.splice(at, 1)[0]!));
      rooms.find((room) => room.slot === slot)!.left -= part;
    }
  };
  const gpusOf = new Map(capacity.gpusOf);
  const runsOf = new Map(capacity.runsOf);
  /** How many runs of an owner wait because of the owner's limit. */
  const limited = new Map<string, number>();
  let running = capacity.running;
  let starting = capacity.starting;
  /** Runs that wait for their GPUs: what is free is kept for them. */
  let keptFor = 0;
  const start: Start[] = [];
  const queue: QueueEntry[] = [];
  const blocked: Blocked[] = [];
  const wait = (run: WaitingRun, waitingFor: string) =>
    queue.push({ runId: run.runId, position: queue.length + 1, waitingFor });

  /** GPUs that runs before it would get from the owner's. */
  const promised = new Map<string, number>();
  const isUnsure = capacity.asking && capacity.likely === undefined;
  const block = (run: WaitingRun) => {
    const gpus = gpusNeeded(run);
    const had = (gpusOf.get(run.owner) ?? 0) + (promised.get(run.owner) ?? 0);
    if (gpus > 0 && (!capacity.slotsKnown || isUnsure || gpus > capacity.totalSlots)) return;
    promised.set(run.owner, (promised.get(run.owner) ?? 0) + gpus);
    const overLimit = gpus === 0 ? 0 : Math.max(0, had + gpus - capacity.maxGpusPerUser);
    blocked.push({ runId: run.runId, priority: run.priority, gpus, owner: run.owner, overLimit });
  };

  for (const run of due) {
    const overDisk = capacity.overDisk?.get(run.owner);
    if (overDisk !== undefined) {
      wait(run, waitText({ t: "disk_of_user", how: overDisk }));
      continue;
    }
    const runs = runsOf.get(run.owner) ?? 0;
    // Others' runs pass it, and nobody gives way to it.
    if (runs >= capacity.maxRunsPerUser) {
      wait(run, waitText({ t: "runs_of_user", owner: run.owner, limit: capacity.maxRunsPerUser }));
      continue;
    }
    if (running >= capacity.maxRuns) {
      block(run);
      wait(run, waitText({ t: "place", maxRuns: capacity.maxRuns, before: queue.length }));
      continue;
    }
    if (starting >= capacity.maxStarting) {
      wait(run, waitText({ t: "start" }));
      continue;
    }
    const holdsEnough = run.heldSlots.length > 0 || run.gpusRequested === 0;
    const wanted = run.gpusRequested;
    if (!holdsEnough && !capacity.slotsKnown) {
      wait(run, waitText({ t: "gpus_unknown", wanted }));
      continue;
    }
    if (!holdsEnough && capacity.asking) {
      const { holders, used } = capacity;
      const reason = {
        wanted,
        ...(run.share === undefined ? {} : { what: wishText(run.share, wanted) }),
      };
      if (run.gpusMandatory) block(run);
      wait(
        run,
        waitText(
          used.length === 0
            ? { t: "gpus_asked", ...reason }
            : { t: "gpus", ...reason, free: 0, behind: 0, holders, used },
        ),
      );
      continue;
    }
    const own = gpusOf.get(run.owner) ?? 0;
    const before = limited.get(run.owner) ?? 0;
    const allowed = before > 0 ? 0 : Math.max(0, Math.floor(capacity.maxGpusPerUser - own));
    // What its owner may not use is kept from the owner's later runs only.
    if (run.gpusMandatory && !holdsEnough && run.share === undefined && wanted > allowed) {
      block(run);
      const limit = capacity.maxGpusPerUser;
      limited.set(run.owner, before + 1);
      if (before > 0) {
        wait(
          run,
          waitText({ t: "gpus", wanted, free: free.length, behind: before, holders: [], used: [] }),
        );
      } else {wait(
          run,
          waitText({ t: "limit_of_user", wanted, owner: run.owner, used: own, limit }),
        );}
      continue;
    }
    if (run.share !== undefined && !holdsEnough) {
      const shares = keptFor > 0 ? undefined : sharesFor(run, run.share);
      const parts = shares?.reduce((sum, { part }) => sum + part, 0) ?? 0;
      const isAllowed = before === 0 && fits(parts, capacity.maxGpusPerUser - own);
      if (run.gpusMandatory && (shares === undefined || !isAllowed)) {
        block(run);
        const { holders, used, maxGpusPerUser: limit } = capacity;
        const reason = { wanted, what: wishText(run.share, wanted), free: free.length, holders };
        if (shares !== undefined) {
          limited.set(run.owner, before + 1);
          wait(
            run,
            waitText({ t: "limit_of_user", ...reason, owner: run.owner, used: own, limit }),
          );
        } else {
          wait(
            run,
            waitText({
              t: "gpus",
              ...reason,
              behind: keptFor,
              used: [...rooms.map(roomText), ...used],
            }),
          );
          keptFor++;
        }
        continue;
      }
      const given = isAllowed ? shares ?? [] : [];
      take(given);
      start.push({ runId: run.runId, slots: [], shares: given });
      gpusOf.set(run.owner, own + (given.length === 0 ? 0 : parts));
      runsOf.set(run.owner, runs + 1);
      running++;
      starting++;
      continue;
    }
    const available = keptFor > 0 ? 0 : Math.min(allowed, free.length);
    if (run.gpusMandatory && !holdsEnough && wanted > available) {
      if (wanted > capacity.totalSlots) {
        wait(run, waitText({ t: "gpus_of_host", wanted, total: capacity.totalSlots }));
      } else {
        const { holders, used } = capacity;
        block(run);
        wait(
          run,
          waitText({ t: "gpus", wanted, free: free.length, behind: keptFor, holders, used }),
        );
        keptFor++;
      }
      continue;
    }
    const slots = holdsEnough
      ? []
      : closest(free, Math.min(wanted, available), capacity.closeness ?? (() => 0));
    for (const slot of slots) free.splice(free.indexOf(slot), 1);
    start.push({ runId: run.runId, slots });
    gpusOf.set(run.owner, own + slots.length);
    runsOf.set(run.owner, runs + 1);
    running++;
    starting++;
  }
  for (const run of backingOff) wait(run, run.waitingFor);
  const next = backingOff[0]?.notBefore ?? Infinity;
  const freeGpus = free.length + (capacity.likely ?? 0);
  return { start, queue, blocked, freeGpus, wakeAt: next === Infinity ? undefined : next };
}

function gpusNeeded({ gpusMandatory, gpusRequested, heldSlots }: WaitingRun): number {
  return gpusMandatory && heldSlots.length === 0 ? gpusRequested : 0;
}

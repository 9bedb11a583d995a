/**
 * Decides which runs start now: a pure function of the waiting runs and of free resources.
 * Higher priority first, then first come, first served. A run whose GPUs are mandatory gets all of them or waits, and while
 * it waits no run behind it may take a GPU: otherwise a stream of small runs would starve it for ever. Runs that need no GPU
 * pass it. A run whose GPUs are not mandatory takes what is free, possibly none.
 */

export interface WaitingRun {
  runId: string;
  priority: number;
  /** Unix milliseconds; ties are broken by run id. */
  createdAt: number;
  gpusRequested: number;
  gpusMandatory: boolean;
  /** Slots that it already holds from an interrupted start. */
  heldSlots: readonly number[];
  /** It may not start before this time (of the clock of `now`): back-off of the restart policy, temporary trouble. */
  notBefore: number | null;
  /** What it waits for until then, as text for people. */
  waitingFor: string;
}

export interface Capacity {
  /** Milliseconds of any clock. */
  now: number;
  freeSlots: readonly number[];
  /** All slots of the host, free or not. */
  totalSlots: number;
  /** False while the slots are an earlier daemon's: then none is assigned. */
  slotsKnown: boolean;
  /** Runs that have processes. */
  running: number;
  maxRuns: number;
  /** Runs whose proxy has not registered yet. If too many start at once, each would miss its handshake limit. */
  starting: number;
  maxStarting: number;
}

export interface Start {
  runId: string;
  /** Slots to claim for it; none if it already holds some. */
  slots: number[];
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
  /** When the next back-off ends. */
  wakeAt: number | undefined;
}

function gpus(count: number): string {
  return count === 1 ? "1 GPU" : `${count} GPUs`;
}

function inOrder(a: WaitingRun, b: WaitingRun): number {
  return b.priority - a.priority || a.createdAt - b.createdAt || (a.runId < b.runId ? -1 : 1);
}

export function schedule(waiting: readonly WaitingRun[], capacity: Capacity): Schedule {
  const isDue = (run: WaitingRun) => run.notBefore === null || run.notBefore <= capacity.now;
  const due = waiting.filter(isDue).toSorted(inOrder);
  const backingOff = waiting.filter((run) => !isDue(run)).toSorted((a, b) =>
    a.notBefore! - b.notBefore! || inOrder(a, b)
  );

  const free = capacity.freeSlots.toSorted((a, b) => a - b);
  let running = capacity.running;
  let starting = capacity.starting;
  let keptForAnother = false;
  const start: Start[] = [];
  const queue: QueueEntry[] = [];
  const wait = (run: WaitingRun, waitingFor: string) =>
    queue.push({ runId: run.runId, position: queue.length + 1, waitingFor });

  for (const run of due) {
    if (running >= capacity.maxRuns) {
      wait(run, `a place among the ${capacity.maxRuns} runs that may run at once`);
      continue;
    }
    if (starting >= capacity.maxStarting) {
      wait(run, "its turn to start");
      continue;
    }
    const available = keptForAnother ? 0 : free.length;
    const holdsEnough = run.heldSlots.length > 0 || run.gpusRequested === 0;
    if (!holdsEnough && !capacity.slotsKnown) {
      wait(run, `${gpus(run.gpusRequested)} (those of this host cannot be entered into the registry yet)`);
      continue;
    }
    if (run.gpusMandatory && !holdsEnough && run.gpusRequested > available) {
      if (run.gpusRequested > capacity.totalSlots) {
        wait(run, `${gpus(run.gpusRequested)}, and this host has ${capacity.totalSlots}`);
      } else {
        wait(
          run,
          `${gpus(run.gpusRequested)} (${keptForAnother ? "runs before it want GPUs too" : `${free.length} free`})`,
        );
        keptForAnother = true;
      }
      continue;
    }
    const slots = holdsEnough ? [] : free.splice(0, Math.min(run.gpusRequested, available));
    start.push({ runId: run.runId, slots });
    running++;
    starting++;
  }
  for (const run of backingOff) wait(run, run.waitingFor);
  return { start, queue, wakeAt: backingOff[0]?.notBefore ?? undefined };
}

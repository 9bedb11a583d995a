/**
 * Fair shares between the owners of runs: who has used less of the host lately, for its weight,
 * comes first among runs of one priority. Use is in unit-milliseconds: a run uses as many units as
 * it has GPUs, of shared ones its part, and without GPUs one; what is past counts half after each
 * half-life. Pure: callers pass the time, Unix milliseconds.
 */

export interface Shares {
  /** By owner, and by sweep as "sweep:NAME" among its owner's; 1 for the others. */
  weights: ReadonlyMap<string, number>;
  halfLifeMs: number;
}

export const HALF_LIFE_MS = 7 * 86_400_000;

/**
 * A unit that runs now counts as if it had run for this part of a half-life already (an hour of a
 * week): otherwise the owner with the least past use would get every place that is free at one
 * moment.
 */
const AHEAD = 1 / 168;

/** What remains after a time of a use that has ended. */
export function decayed(use: number, ms: number, halfLifeMs: number): number {
  return use * 2 ** (-Math.max(0, ms) / halfLifeMs);
}

/** The use of `units` for a time that ends now. */
export function used(units: number, ms: number, halfLifeMs: number): number {
  return units * halfLifeMs / Math.LN2 * (1 - 2 ** (-Math.max(0, ms) / halfLifeMs));
}

export interface Ran {
  runId: string;
  owner: string;
  /** The sweep it is a trial of, by its tag; "": none. */
  sweep: string;
  units: number;
  from: number;
  /** Null: it still runs. */
  to: number | null;
}

/** The use of each owner. */
export class Uses {
  readonly #halfLifeMs: number;
  /** What ended runs have used, as of `at`. */
  readonly #ended = new Map<string, { use: number; at: number }>();
  readonly #running = new Map<string, Ran>();

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs;
  }

  /** Enters an attempt that runs or has ended; the end of one that ran is `ended`. */
  add(ran: Ran): void {
    if (ran.to === null) this.#running.set(ran.runId, ran);
    else this.#end(ran, ran.to);
  }

  ended(runId: string, at: number): void {
    const ran = this.#running.get(runId);
    if (ran === undefined) return;
    this.#running.delete(runId);
    this.#end(ran, at);
  }

  /** Units that run now, by owner and sweep. */
  runningBySweep(): Map<string, number> {
    const units = new Map<string, number>();
    for (const ran of this.#running.values()) {
      units.set(keyOf(ran), (units.get(keyOf(ran)) ?? 0) + ran.units);
    }
    return units;
  }

  isRunning(runId: string): boolean {
    return this.#running.has(runId);
  }

  #end({ owner, units, from }: Ran, to: number): void {
    const before = this.#ended.get(owner) ?? { use: 0, at: to };
    // Ends may be entered in any order: both are taken to the later time.
    const at = Math.max(before.at, to);
    const use = decayed(before.use, at - before.at, this.#halfLifeMs) +
      decayed(used(units, to - from, this.#halfLifeMs), at - to, this.#halfLifeMs);
    this.#ended.set(owner, { use, at });
  }

  /** By owner, with what runs now counted ahead. */
  at(now: number): Map<string, number> {
    const uses = new Map<string, number>();
    for (const [owner, { use, at }] of this.#ended) {
      uses.set(owner, decayed(use, now - at, this.#halfLifeMs));
    }
    for (const { owner, units, from } of this.#running.values()) {
      const use = used(units, now - from, this.#halfLifeMs) + units * AHEAD * this.#halfLifeMs;
      uses.set(owner, (uses.get(owner) ?? 0) + use);
    }
    return uses;
  }
}

export interface Ranked {
  runId: string;
  owner: string;
  /** As of a run that runs. */
  sweep: string;
  priority: number;
  createdAt: number;
  gpusRequested: number;
  /** Of each card, 0 to 1; absent: whole cards. */
  part?: number | undefined;
}

/** What a run uses. */
export function unitsOf(
  { gpusRequested, part = 1 }: Pick<Ranked, "gpusRequested" | "part">,
): number {
  return gpusRequested === 0 ? 1 : gpusRequested * part;
}

/**
 * The rank of each run among those of its priority, 0 first: always the next run of the owner that
 * has used least for its weight, with the runs before it counted as if they ran. An owner's sweeps
 * take turns.
 * @param running result of `runningBySweep`
 */
export function ranks(
  waiting: readonly Ranked[],
  uses: ReadonlyMap<string, number>,
  shares: Shares,
  running: ReadonlyMap<string, number> = new Map(),
): Map<string, number> {
  const ranks = new Map<string, number>();
  const loads = new Map(uses);
  const weightOf = (owner: string) => shares.weights.get(owner) ?? 1;
  const priorities = [...Map.groupBy(waiting, ({ priority }) => priority)].toSorted(([a], [b]) =>
    b - a
  );
  for (const [, equal] of priorities) {
    const queues = [...Map.groupBy(equal.toSorted(inOrder), ({ owner }) => owner)].map((
      [owner, runs],
    ) => ({
      owner,
      runs: takingTurns(runs, running, weightOf),
      next: 0,
    }));
    for (let rank = 0; rank < equal.length; rank++) {
      let least: { queue: typeof queues[number]; load: number } | undefined;
      for (const queue of queues) {
        if (queue.next === queue.runs.length) continue;
        const load = (loads.get(queue.owner) ?? 0) / weightOf(queue.owner);
        const isBefore = least === undefined || load < least.load ||
          (load === least.load &&
            inOrder(queue.runs[queue.next]!, least.queue.runs[least.queue.next]!) < 0);
        if (isBefore) least = { queue, load };
      }
      const { queue } = least!;
      const run = queue.runs[queue.next++]!;
      ranks.set(run.runId, rank);
      const units = unitsOf(run);
      loads.set(queue.owner, (loads.get(queue.owner) ?? 0) + units * AHEAD * shares.halfLifeMs);
    }
  }
  return ranks;
}

const keyOf = ({ owner, sweep }: { owner: string; sweep: string }) =>
  JSON.stringify([owner, sweep]);

/**
 * Runs of one owner in order: next is always one of the sweep that has fewest units running, or
 * before it, for its weight.
 */
function takingTurns(
  runs: readonly Ranked[],
  running: ReadonlyMap<string, number>,
  weightOf: (sweep: string) => number,
): readonly Ranked[] {
  const queues = [...Map.groupBy(runs, keyOf)].map(([key, runs]) => ({
    runs,
    next: 0,
    weight: weightOf(runs[0]!.sweep),
    load: (running.get(key) ?? 0) / weightOf(runs[0]!.sweep),
  }));
  if (queues.length === 1) return runs;
  return runs.map(() => {
    const left = queues.filter(({ runs, next }) => next < runs.length);
    const least = left.reduce((least, queue) => queue.load < least.load ? queue : least);
    const run = least.runs[least.next++]!;
    least.load += unitsOf(run) / least.weight;
    return run;
  });
}

function inOrder(a: Ranked, b: Ranked): number {
  return a.createdAt - b.createdAt || (a.runId < b.runId ? -1 : 1);
}

/**
 * The shares of "equal" or "alice=2,uid:1001=0.5,sweep:ppo=3". @throws Error that says what is wrong
 */
export function parseShares(text: string): ReadonlyMap<string, number> {
  if (text === "equal") return new Map();
  return new Map(
    text.split(",").map((part) => {
      const at = part.lastIndexOf("=");
      const [owner, weight] = [part.slice(0, at).trim(), Number(part.slice(at + 1))];
      if (
        at < 1 || owner === "" || part.slice(at + 1).trim() === "" || !Number.isFinite(weight) ||
        weight <= 0
      ) {
        throw new Error(
          `must be equal, or OWNER=WEIGHT,… such as alice=2,uid:1001=0.5, not ${
            JSON.stringify(part)
          }`,
        );
      }
      return [owner, weight];
    }),
  );
}

/**
 * Which runs give way to waiting ones of higher priority (`metadata.queue.preemptible`). Pure;
 * preemptions.ts performs it.
 */

/** A run that would start if there were room. */
export interface Blocked {
  runId: string;
  priority: number;
  /** GPUs that it needs at once; 0: none, or it takes what is free. */
  gpus: number;
  owner: string;
  /**
   * How many GPUs of its owner must become free before the owner may have these; those of the runs
   * before it included.
   */
  overLimit: number;
}

/** A run that has processes on this host. */
export interface Runner {
  runId: string;
  owner: string;
  priority: number;
  /** GPU slots that its end frees. */
  gpus: number;
  /** Unix milliseconds. */
  startedAt: number;
  /** It ends already: cancelled, failed, or stopped for another run. */
  ending: boolean;
  preemptible: boolean;
  /** It was asked for a checkpoint, to be stopped afterwards. */
  asked: boolean;
}

export interface Preemption {
  victim: string;
  /** The waiting run that gets its place. */
  by: string;
}

interface Room {
  places: number;
  gpus: number;
}

interface Missing extends Room {
  /** GPUs that the run's owner has. */
  own: number;
}

/**
 * @param blocked in the order in which they would start
 * @param room places (`--max-runs`) and GPUs that are free now
 */
export function preemptions(
  blocked: readonly Blocked[],
  runners: readonly Runner[],
  room: Room,
): Preemption[] {
  const candidates = runners.filter(({ ending, preemptible }) => preemptible && !ending).toSorted(
    leastLoss,
  );
  const lowest = Math.min(...candidates.map(({ priority }) => priority));
  const ending = runners.filter((runner) => runner.ending);
  const free: Room = {
    places: room.places + ending.length,
    gpus: room.gpus + ending.reduce((sum, { gpus }) => sum + gpus, 0),
  };
  const freedOf = new Map<string, number>();
  const frees = ({ owner, gpus }: Runner) => freedOf.set(owner, (freedOf.get(owner) ?? 0) + gpus);
  ending.forEach(frees);
  const chosen: Preemption[] = [];
  let gpusKept = false;
  for (const run of blocked) {
    if (run.priority <= lowest || candidates.length === 0) break;
    // A run before it that must wait for GPUs keeps them.
    if (run.gpus > 0 && gpusKept) continue;
    const missing: Missing = {
      places: 1 - free.places,
      gpus: run.gpus - free.gpus,
      own: run.overLimit - (freedOf.get(run.owner) ?? 0),
    };
    const victims = victimsFor(
      run.owner,
      missing,
      candidates.filter(({ priority }) => priority < run.priority),
    );
    if (victims === undefined) {
      if (run.gpus > 0) gpusKept = true;
      continue;
    }
    for (const victim of victims) {
      candidates.splice(candidates.indexOf(victim), 1);
      chosen.push({ victim: victim.runId, by: run.runId });
      free.places++;
      free.gpus += victim.gpus;
      frees(victim);
    }
    free.places--;
    free.gpus -= run.gpus;
  }
  return chosen;
}

/**
 * Runs that cannot start which one decision finds at most: each is a look at a disk. Beyond them
 * nobody gives way for now.
 */
const MOST_UNABLE = 20;

/**
 * As `preemptions`, but nobody gives way to a run that could not start anyway: it counts as not
 * there.
 */
export function preemptionsForAble(
  blocked: readonly Blocked[],
  runners: readonly Runner[],
  room: Room,
  canStart: (runId: string) => boolean,
): Preemption[] {
  for (let [able, unable] = [blocked, 0]; unable <= MOST_UNABLE;) {
    const chosen = preemptions(able, runners, room);
    const without = new Set(chosen.map(({ by }) => by).filter((by) => !canStart(by)));
    if (without.size === 0) return chosen;
    unable += without.size;
    able = able.filter(({ runId }) => !without.has(runId));
  }
  return [];
}

/**
 * First those that were asked already, then by the least priority, then those that have run for the
 * least time.
 */
function leastLoss(a: Runner, b: Runner): number {
  return Number(b.asked) - Number(a.asked) || a.priority - b.priority ||
    b.startedAt - a.startedAt ||
    (a.runId < b.runId ? -1 : 1);
}

/**
 * Enough of the candidates, and none without which the rest is enough; undefined if all of them are
 * not enough.
 */
function victimsFor(
  owner: string,
  missing: Missing,
  candidates: readonly Runner[],
): Runner[] | undefined {
  const gpusOf = (runners: readonly Runner[]) => runners.reduce((sum, { gpus }) => sum + gpus, 0);
  const ownOf = (runners: readonly Runner[]) =>
    gpusOf(runners.filter((runner) => runner.owner === owner));
  const lacks = (victims: readonly Runner[]): Missing => ({
    places: missing.places - victims.length,
    gpus: missing.gpus - gpusOf(victims),
    own: missing.own - ownOf(victims),
  });
  const isEnough = (victims: readonly Runner[]) =>
    Object.values(lacks(victims)).every((count) => count <= 0);
  let victims: Runner[] = [];
  for (const candidate of candidates) {
    const { places, gpus, own } = lacks(victims);
    const helps = places > 0 ||
      (candidate.gpus > 0 && (gpus > 0 || (own > 0 && candidate.owner === owner)));
    if (helps) victims.push(candidate);
  }
  if (!isEnough(victims)) return undefined;
  for (const victim of victims.toReversed()) {
    const others = victims.filter((other) => other !== victim);
    if (isEnough(others)) victims = others;
  }
  return victims;
}

/**
 * Which runs give way to waiting ones of higher priority (`metadata.queue.preemptible`). Pure; preemptions.ts performs it.
 */

/** A run that would start if there were room. */
export interface Blocked {
  runId: string;
  priority: number;
  /** GPUs that it needs at once; 0: none, or it takes what is free. */
  gpus: number;
}

/** A run that has processes on this host. */
export interface Runner {
  runId: string;
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

/**
 * @param blocked in the order in which they would start
 * @param room places (`--max-runs`) and GPUs that are free now
 */
export function preemptions(blocked: readonly Blocked[], runners: readonly Runner[], room: Room): Preemption[] {
  const candidates = runners.filter(({ ending, preemptible }) => preemptible && !ending).toSorted(leastLoss);
  const lowest = Math.min(...candidates.map(({ priority }) => priority));
  const ending = runners.filter((runner) => runner.ending);
  const free: Room = {
    places: room.places + ending.length,
    gpus: room.gpus + ending.reduce((sum, { gpus }) => sum + gpus, 0),
  };
  const chosen: Preemption[] = [];
  let gpusKept = false;
  for (const run of blocked) {
    if (run.priority <= lowest || candidates.length === 0) break;
    // A run before it that must wait for GPUs keeps them.
    if (run.gpus > 0 && gpusKept) continue;
    const missing: Room = { places: 1 - free.places, gpus: run.gpus - free.gpus };
    const victims = victimsFor(missing, candidates.filter(({ priority }) => priority < run.priority));
    if (victims === undefined) {
      if (run.gpus > 0) gpusKept = true;
      continue;
    }
    for (const victim of victims) {
      candidates.splice(candidates.indexOf(victim), 1);
      chosen.push({ victim: victim.runId, by: run.runId });
      free.places++;
      free.gpus += victim.gpus;
    }
    free.places--;
    free.gpus -= run.gpus;
  }
  return chosen;
}

/** First those that were asked already, then by the least priority, then those that have run for the least time. */
function leastLoss(a: Runner, b: Runner): number {
  return Number(b.asked) - Number(a.asked) || a.priority - b.priority || b.startedAt - a.startedAt ||
    (a.runId < b.runId ? -1 : 1);
}

/** Enough of the candidates, and none without which the rest is enough; undefined if all of them are not enough. */
function victimsFor(missing: Room, candidates: readonly Runner[]): Runner[] | undefined {
  const isEnough = (victims: readonly Runner[]) =>
    victims.length >= missing.places && victims.reduce((sum, { gpus }) => sum + gpus, 0) >= missing.gpus;
  let victims: Runner[] = [];
  for (const candidate of candidates) {
    if (isEnough(victims)) break;
    // Without a GPU it frees a place only.
    if (candidate.gpus > 0 || victims.length < missing.places) victims.push(candidate);
  }
  if (!isEnough(victims)) return undefined;
  for (const victim of victims.toReversed()) {
    const others = victims.filter((other) => other !== victim);
    if (isEnough(others)) victims = others;
  }
  return victims;
}

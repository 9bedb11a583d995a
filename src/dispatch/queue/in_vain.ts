/**
 * Preemptions in vain: the run that got the place could not start. It stops nobody for some time,
 * and those that have given way to it are spared; both for longer each time. Known to this daemon
 * only: the next one may learn it once more.
 */

const FIRST_MS = 60_000;
const LONGEST_MS = 3_600_000;

/** How long after so many failures. */
export function restMs(times: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (times - 1));
}

interface Rest {
  times: number;
  /** Milliseconds of the caller's clock. */
  until: number;
}

export class InVain {
  readonly #failing = new Map<string, Rest>();
  readonly #spared = new Map<string, Rest>();
  /** Who has given way to a run that has not come up yet. */
  readonly #victims = new Map<string, Set<string>>();

  gaveWay(victim: string, by: string): void {
    const victims = this.#victims.get(by) ?? new Set();
    this.#victims.set(by, victims.add(victim));
  }

  /** The run has had its place and waits again. */
  startFailed(runId: string, now: number): void {
    again(this.#failing, runId, now);
    for (const victim of this.#victims.get(runId) ?? []) again(this.#spared, victim, now);
    this.#victims.delete(runId);
  }

  cameUp(runId: string): void {
    this.#failing.delete(runId);
    this.#victims.delete(runId);
  }

  ended(runId: string): void {
    this.cameUp(runId);
    this.#spared.delete(runId);
  }

  mayPreempt(runId: string, now: number): boolean {
    return (this.#failing.get(runId)?.until ?? now) <= now;
  }

  isSpared(runId: string, now: number): boolean {
    return (this.#spared.get(runId)?.until ?? now) > now;
  }
}

function again(rests: Map<string, Rest>, runId: string, now: number): void {
  const times = (rests.get(runId)?.times ?? 0) + 1;
  rests.set(runId, { times, until: now + restMs(times) });
}

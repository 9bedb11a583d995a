/**
 * Retries trials of a sweep: those that failed, or some that a person names, such as stopped ones
 * that are to go on.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import { yieldToOthers } from "../base/time/sleep.ts";
import type { Registry } from "../registry/registry.ts";

/**
 * Trials of which the failed ones are retried before others have their turn: each is a commit, and
 * there may be 100 000.
 */
const AT_ONCE = 100;

/**
 * As many as the sweep may have at once.
 * @param trials their numbers; undefined: those that failed
 * @param retry a run, or throws @param onRetried called before others have their turn, after some
 * were retried
 * @throws MosaicError once all were tried, if some cannot be retried: with the code of the first of
 * them
 */
export async function retryTrials(
  { sweeps }: Pick<Registry, "sweeps">,
  { sweepId, name, maxParallel, trials: named }: {
    sweepId: string;
    name: string;
    maxParallel: number;
    trials?: readonly number[];
  },
  retry: (runId: string) => void,
  onRetried: () => void,
): Promise<void> {
  const failures: { trial: number; error: unknown }[] = [];
  let retried = 0;
  const wanted = named && new Set(named);
  for (let from = 0;;) {
    const trials = sweeps.trials(sweepId, from, AT_ONCE);
    const before = retried;
    // Others may have been made meanwhile.
    let live = sweeps.live().filter((trial) => trial.sweepId === sweepId).length;
    for (const { trial, runId, state } of trials) {
      if (wanted === undefined ? state !== "FAULTED" : !wanted.delete(trial)) continue;
      try {
        if (state === null) {
          throw new MosaicError(
            "failed_precondition",
            runId === null ? "its config was refused" : "its run is deleted",
          );
        }
        if (live >= maxParallel) {
          throw new MosaicError(
            "resource_exhausted",
            `${live} trials of sweep ${name} wait or run already, and its max_parallel is ${maxParallel} (retry again when some have ended)`,
          );
        }
        retry(runId!);
        live++;
        retried++;
      } catch (error) {
        // It keeps no other from being retried.
        failures.push({ trial, error });
      }
    }
    if (retried > before) onRetried();
    if (trials.length < AT_ONCE) break;
    from = trials.at(-1)!.trial + 1;
    await yieldToOthers();
  }
  for (const trial of wanted ?? []) {
    failures.push({ trial, error: new MosaicError("not_found", "there is no such trial yet") });
  }
  const [first] = failures;
  if (first === undefined) return;
  const { trial, error } = first;
  throw new MosaicError(
    error instanceof MosaicError ? error.code : "internal",
    `${failures.length} of ${failures.length + retried} ${
      named === undefined ? "failed " : ""
    }trials cannot be retried, the first is trial ${trial}: ${messageOf(error)}`,
    retried === 0 ? {} : { hint: `The other ${retried} are retried.` },
  );
}

/** Retries the failed trials of a sweep. */
import { messageOf, MosaicError } from "../base/errors.ts";
import { yieldToOthers } from "../base/time/sleep.ts";
import type { Registry } from "../registry/registry.ts";

/** Trials of which the failed ones are retried before others have their turn: each is a commit, and there may be 100 000. */
const AT_ONCE = 100;

/**
 * As many as the sweep may have at once.
 * @param retry a run, or throws @param onRetried called before others have their turn, after some were retried
 * @throws MosaicError once all were tried, if some cannot be retried: with the code of the first of them
 */
export async function retryFailed(
  { sweeps }: Pick<Registry, "sweeps">,
  { sweepId, name, maxParallel }: { sweepId: string; name: string; maxParallel: number },
  retry: (runId: string) => void,
  onRetried: () => void,
): Promise<void> {
  const failures: { trial: number; error: unknown }[] = [];
  let retried = 0;
  for (let from = 0;;) {
    const trials = sweeps.trials(sweepId, from, AT_ONCE);
    const before = retried;
    // Others may have been made meanwhile.
    let live = sweeps.live().filter((trial) => trial.sweepId === sweepId).length;
    for (const { trial, runId, state } of trials) {
      if (state !== "FAULTED") continue;
      try {
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
  const [first] = failures;
  if (first === undefined) return;
  const { trial, error } = first;
  throw new MosaicError(
    error instanceof MosaicError ? error.code : "internal",
    `${failures.length} of ${failures.length + retried} failed trials cannot be retried, the first is trial ${trial}: ${
      messageOf(error)
    }`,
    retried === 0 ? {} : { hint: `The other ${retried} are retried.` },
  );
}

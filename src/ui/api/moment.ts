/** Finds the step of a point on a curve. */
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { StoredStep } from "../../gen/records/record_types.ts";

/**
 * The episode record of seq `episode`, and where its steps begin; or the step at Unix time `at`.
 */
export function momentOf(core: Core, runId: string, of: { episode: number } | { at: number }) {
  if ("at" in of) return { episode: null, agent: null, step_seq: stepAt(core, runId, of.at) };
  const [record] = core.records.read(runId, "episodes", of.episode - 1, 1);
  if (record === undefined) {
    throw new MosaicError("not_found", `the run has no episode with seq ${of.episode}`);
  }
  const last = stepAt(core, runId, Number(BigInt(record.tsNs) / 1_000_000n));
  const first = last === null
    ? undefined
    : stepOf(core, runId, Math.max(1, last - record.steps + 1));
  const isIts = first?.episode === record.episode;
  return { episode: record.episode, agent: record.agentId, step_seq: isIts ? first.seq : last };
}

/** Undefined: not stored, or there is none with that seq. */
function stepOf(core: Core, runId: string, seq: number): StoredStep | undefined {
  try {
    return core.records.read(runId, "steps", seq - 1, 1)[0];
  } catch (error) {
    if (error instanceof MosaicError && error.code === "out_of_range") return undefined;
    throw error;
  }
}

/**
 * Seq of the last step up to that time; null if there is none. Steps are stored approximately in
 * the order of their times.
 */
function stepAt(core: Core, runId: string, at: number): number | null {
  let [low, high] = [1, core.records.head(runId, "steps")];
  let found: number | null = null;
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const step = stepOf(core, runId, middle);
    const isUntil = step === undefined || Number(BigInt(step.tsNs) / 1_000_000n) <= at;
    if (step !== undefined && isUntil) found = step.seq;
    if (isUntil) low = middle + 1;
    else high = middle - 1;
  }
  return found;
}

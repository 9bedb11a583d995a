/** Pictures of an environment: the steps of a range that carry one, their payload as the worker gave it. */
import type { Core } from "../dispatch/core/core.ts";
import { finiteOrText, type Frame, parsed } from "./page_json.ts";

/** Steps looked at for one answer. */
const SCAN_STEPS = 2000;

/**
 * At most `limit` frames after seq `since`. `next` is the seq after which to continue: it advances even when no step of the
 * range has a picture.
 */
export function framesOf(core: Core, runId: string, since: number, limit: number) {
  const frames: Frame[] = [];
  let next = since;
  while (frames.length < limit && next - since < SCAN_STEPS) {
    const steps = core.records.read(runId, "steps", next, Math.min(256, limit * 4));
    if (steps.length === 0) break;
    for (const step of steps) {
      next = step.seq;
      if (step.renderPayloadJson.length <= 2) continue;
      frames.push({
        seq: step.seq,
        episode: step.episode,
        step: step.step,
        reward: finiteOrText(step.reward),
        action: parsed(step.actionJson),
        payload: parsed(step.renderPayloadJson),
      });
      if (frames.length === limit) break;
    }
  }
  return { frames, next, head: core.records.head(runId, "steps") };
}

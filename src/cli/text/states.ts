/** Names of states in a filter. */
import { MosaicError } from "../../base/errors.ts";
import {
  ENDED_STATES,
  LIVE_STATES,
  RUN_STATES,
  type RunState,
} from "../../registry/lifecycle/lifecycle.ts";
import { didYouMean } from "../../base/text/nearest.ts";

const SETS: Record<string, readonly RunState[]> = {
  live: LIVE_STATES,
  ended: ENDED_STATES,
  queued: ["INIT"],
  starting: ["HANDSHAKE"],
  running: ["HANDSHAKE", "READY", "EXECUTING"],
  succeeded: ["TERMINATED"],
  failed: ["FAULTED"],
  canceled: ["CANCELLED"],
};

/**
 * Parses states and sets such as "EXECUTING,paused" or "live". @throws {MosaicError}
 * `invalid_argument` with a suggestion
 */
export function parseStates(text: string): RunState[] {
  const states = text.split(",").map((t) => t.trim()).filter((t) => t !== "").flatMap((word) => {
    const set = SETS[word.toLowerCase()];
    if (set !== undefined) return set;
    const state = RUN_STATES.find((s) => s === word.toUpperCase());
    if (state !== undefined) return [state];
    const known = [...RUN_STATES, ...Object.keys(SETS)];
    throw new MosaicError("invalid_argument", `no state "${word}".${didYouMean(word, known)}`, {
      hint: `States: ${RUN_STATES.join(", ")}; sets of them: ${Object.keys(SETS).join(", ")}.`,
    });
  });
  return [...new Set(states)];
}

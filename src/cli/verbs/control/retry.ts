/** `mosaic retry` */
import { ENDED_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { controlVerb, nextAttempt } from "../../verb/each_run.ts";

export const define = controlVerb({
  states: ENDED_STATES,
  description:
    "Starts another attempt of ended runs, under the same id. The worker gets the newest checkpoint that it reported (checkpoint_saved, mosaic.checkpoint) as MOSAIC_RESUME_FROM; mosaic reset --from names another. Its telemetry is appended to the stored telemetry.",
  examples: [["mosaic retry @last", "retry the newest run"]],
  exits: { 0: "the runs are queued again", 6: "a run is still live (mosaic reset stops it first)" },
  request: (link, run) => link.unary(link.methods.retryRun, { run }),
  done: nextAttempt,
});

/** `mosaic retry` */
import { controlVerb } from "../each_run.ts";

export const define = controlVerb({
  description: "Gives ended runs another attempt under the same id: the newest checkpoint is handed to the worker as " +
    "MOSAIC_RESUME_FROM, and its telemetry goes on after what is stored.",
  examples: [["mosaic retry @last", "try again what failed"]],
  exits: { 0: "the runs are queued again", 6: "a run is still alive (mosaic reset stops it first)" },
  ask: (link, run) => link.unary(link.methods.retryRun, { run }),
  done: (run) => `${run.state}, attempt ${run.attempt}`,
});

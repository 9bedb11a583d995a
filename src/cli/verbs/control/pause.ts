/** `mosaic pause` */
import { LIVE_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { controlVerb } from "../../verb/each_run.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";

export const define = controlVerb({
  states: LIVE_STATES,
  description:
    "Pauses runs. A worker that supports pause is asked on its standard input and acknowledges; any other worker's process group is stopped (SIGSTOP). A paused run keeps its GPUs; the time does not count towards heartbeat and stall limits. Returns at once; a run is PAUSED when its worker has paused.",
  examples: [["mosaic pause @last", "pause the newest run"]],
  exits: { 0: "the runs are being paused", 6: "a run has ended" },
  request: (link, run) => link.unary(link.methods.pauseRun, { run }),
  done: (run) =>
    run.outcome !== "" || run.state === "PAUSED" ? stateWord(run.state) : "is being paused",
});

/** `mosaic reset` */
import { LIVE_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { controlVerb, nextAttempt } from "../../verb/each_run.ts";

export const define = controlVerb({
  states: LIVE_STATES,
  description:
    "Stops live runs and restarts them: from a checkpoint, or from their seed. Also restarts ended runs.",
  options: (command) =>
    command.option(
      "--from <checkpoint>",
      "checkpoint to start from: an artifact listed by mosaic show, or a path for the worker (default: from the beginning)",
    ),
  examples: [
    ["mosaic reset @last", "restart from the beginning; now: mosaic retry --from beginning"],
    ["mosaic reset @last --from checkpoints/episode-000050.json", "restart from this checkpoint"],
  ],
  exits: {
    0: "the runs are queued again, or will be when they have stopped",
    6: "the run's state does not allow it",
  },
  request: (link, run, flags) =>
    link.unary(link.methods.resetRun, { run, fromCheckpoint: String(flags["from"] ?? "") }),
  done: nextAttempt,
});

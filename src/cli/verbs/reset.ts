/** `mosaic reset` */
import { controlVerb } from "../each_run.ts";

export const define = controlVerb({
  description: "Stops runs where they live and starts them again: from a checkpoint, or from their seed.",
  options: (command) =>
    command.option(
      "--from <checkpoint>",
      "checkpoint to start from: an artifact as mosaic show lists it, or a path that the worker finds (default: none, from the seed)",
    ),
  examples: [
    ["mosaic reset @last", "start again from the seed"],
    ["mosaic reset @last --from checkpoints/episode-000050.json", "start again from there"],
  ],
  exits: {
    0: "the runs are queued again, or will be as soon as they have stopped",
    6: "the run's state does not allow it",
  },
  ask: (link, run, flags) => link.unary(link.methods.resetRun, { run, fromCheckpoint: String(flags["from"] ?? "") }),
  done: (run) => `${run.state}, attempt ${run.attempt}`,
});

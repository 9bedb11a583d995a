/** `mosaic retry` */
import { ENDED_STATES, RUN_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { controlVerb, nextAttempt } from "../../verb/each_run.ts";

const BEGINNING = "beginning";

export const define = controlVerb({
  states: (flags) => flags["from"] === undefined ? ENDED_STATES : RUN_STATES,
  description:
    "Starts another attempt of ended runs, under the same id. The worker gets the newest checkpoint that it reported " +
    "(checkpoint_saved, mosaic.checkpoint) as MOSAIC_RESUME_FROM; --from names another. Its telemetry is appended to the " +
    "stored telemetry. With --from, live runs are stopped first.",
  options: (command) =>
    command.option(
      "--from <checkpoint>",
      `start from this checkpoint: an artifact listed by mosaic show, or a path for the worker; "${BEGINNING}": from none`,
    ),
  examples: [
    ["mosaic retry @last", "retry the newest run, from its newest checkpoint"],
    ["mosaic retry @last --from beginning", "from the beginning; a live run is stopped first"],
    ["mosaic retry @last --from checkpoints/episode-000050.json", "from this checkpoint"],
    ["mosaic retry -s failed -t night", "all failed runs with a tag"],
  ],
  exits: {
    0: "the runs are queued again, or will be when they have stopped",
    6: "a run is still live, and --from is not given",
  },
  request: (link, run, { from }) =>
    from === undefined
      ? link.unary(link.methods.retryRun, { run })
      : link.unary(link.methods.resetRun, {
        run,
        fromCheckpoint: from === BEGINNING ? "" : String(from),
      }),
  done: nextAttempt,
});

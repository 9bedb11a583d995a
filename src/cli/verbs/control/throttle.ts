/** `mosaic throttle` */
import { LIVE_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { controlVerb } from "../../verb/each_run.ts";
import { wholeNumber } from "../../verb/flags.ts";

export const define = controlVerb({
  states: LIVE_STATES,
  description:
    "Limits runs to a number of steps per second. Counted are the steps that a worker prints one by one; a worker that only tells how far it is (a metric's step) is not slowed down. A worker is stopped for a part of each tenth of a second; its rate reaches the limit within a few seconds.",
  options: (command) =>
    command.requiredOption("--hz <n>", "maximum steps per second; 0: no limit", wholeNumber()),
  examples: [
    ["mosaic throttle @last --hz 500", "at most 500 steps per second"],
    ["mosaic throttle @last --hz 0", "remove the limit"],
  ],
  exits: { 0: "the limit is in force, or will be when the run starts", 6: "a run has ended" },
  request: (link, run, flags) =>
    link.unary(link.methods.throttleRun, { run, maxRateHz: Number(flags["hz"]) }),
  done: (run) => {
    const { maxRateHz, telemetry } = run;
    if (maxRateHz === 0) return "is not throttled";
    const limit = `is limited to ${maxRateHz} step${maxRateHz === 1 ? "" : "s"}/s`;
    return telemetry !== undefined && telemetry.steps === 0n && telemetry.toldStep > 0n
      ? `${limit}, without effect: its worker prints no single steps, which the limit counts`
      : limit;
  },
});

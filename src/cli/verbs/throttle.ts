/** `mosaic throttle` */
import { controlVerb } from "../each_run.ts";
import { wholeNumber } from "../flags.ts";

export const define = controlVerb({
  description: "Limits runs to a number of steps per second.",
  options: (command) => command.requiredOption("--hz <n>", "maximum steps per second; 0: no limit", wholeNumber()),
  examples: [
    ["mosaic throttle @last --hz 500", "at most 500 steps per second"],
    ["mosaic throttle @last --hz 0", "remove the limit"],
  ],
  exits: { 0: "the limit is in force, or will be when the run starts", 6: "a run has ended" },
  ask: (link, run, flags) => link.unary(link.methods.throttleRun, { run, maxRateHz: Number(flags["hz"]) }),
  done: (run) =>
    run.maxRateHz === 0 ? "is not throttled" : `is limited to ${run.maxRateHz} step${run.maxRateHz === 1 ? "" : "s"}/s`,
});

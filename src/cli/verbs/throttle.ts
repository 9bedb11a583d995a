/** `mosaic throttle` */
import { controlVerb } from "../each_run.ts";
import { wholeNumber } from "../flags.ts";

export const define = controlVerb({
  description: "Holds runs to a number of steps a second.",
  options: (command) => command.requiredOption("--hz <n>", "steps a second; 0 lifts the limit", wholeNumber()),
  examples: [
    ["mosaic throttle @last --hz 500", "at most 500 steps a second"],
    ["mosaic throttle @last --hz 0", "as fast as it goes"],
  ],
  exits: { 0: "it is in force, or will be as they start", 6: "a run has ended" },
  ask: (link, run, flags) => link.unary(link.methods.throttleRun, { run, maxRateHz: Number(flags["hz"]) }),
  done: (run) => run.maxRateHz === 0 ? "is not throttled" : `is held to ${run.maxRateHz} steps/s`,
});

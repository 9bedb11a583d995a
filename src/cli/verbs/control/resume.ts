/** `mosaic resume` */
import { controlVerb } from "../../verb/each_run.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";

export const define = controlVerb({
  states: ["PAUSED", "READY", "EXECUTING"],
  description: "Resumes paused runs.",
  examples: [
    ["mosaic resume @last", "resume the newest run"],
    ["mosaic resume -s paused", "resume all paused runs"],
  ],
  exits: { 0: "the runs are being resumed", 6: "a run has ended" },
  request: (link, run) => link.unary(link.methods.resumeRun, { run }),
  done: (run) => run.state === "PAUSED" ? "is being resumed" : stateWord(run.state),
});

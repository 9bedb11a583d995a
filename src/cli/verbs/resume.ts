/** `mosaic resume` */
import { controlVerb } from "../each_run.ts";

export const define = controlVerb({
  description: "Lets paused runs go on.",
  examples: [
    ["mosaic resume @last", "let the newest run go on"],
    ["mosaic list -q -s paused | xargs -r mosaic resume", "let all go on"],
  ],
  exits: { 0: "they go on", 6: "a run has ended" },
  ask: (link, run) => link.unary(link.methods.resumeRun, { run }),
  done: (run) => run.state === "PAUSED" ? "is being resumed" : run.state,
});

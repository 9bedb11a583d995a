/** `mosaic pause` */
import { controlVerb } from "../each_run.ts";

export const define = controlVerb({
  description:
    "Holds runs. A worker that supports it is asked on its standard input and acknowledges; any other is stopped as a " +
    "process group (SIGSTOP). A held run keeps its GPUs; the time does not count towards heartbeat and stall limits. Answers at once; a run is PAUSED when its worker is held.",
  examples: [["mosaic pause @last", "hold the newest run"]],
  exits: { 0: "they are being held", 6: "a run has ended" },
  ask: (link, run) => link.unary(link.methods.pauseRun, { run }),
  done: (run) => run.outcome !== "" || run.state === "PAUSED" ? run.state : "is being paused",
});

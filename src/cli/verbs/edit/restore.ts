/** `mosaic restore` */
import { runsVerb } from "../../verb/each_run.ts";
import { runJsonOf } from "../../../runs/fields/run_json.ts";
import type { Run } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import { ENDED_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { escapeControl } from "../../text/text.ts";

export const define = runsVerb<Run>({
  description:
    "Brings deleted runs back from the trash as they were, with the runs within them. mosaic list --trash shows what is " +
    "there. @last is the run that was deleted last.",
  examples: [
    ["mosaic restore @last", "undo the last mosaic delete"],
    ["mosaic restore -t scratch", "all deleted runs with a tag"],
  ],
  exits: { 4: "no such run in the trash", 6: "the run that it is within is in the trash" },
  states: ENDED_STATES,
  trash: () => "only",
  request: (link, ref) => link.unary(link.methods.restoreRun, { run: ref }),
  line: ({ runId, name }) => `${runId}  restored (${escapeControl(name)})`,
  json: runJsonOf,
});

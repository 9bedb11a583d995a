/** `mosaic delete` */
import type { z } from "zod";
import { MosaicError } from "../../../base/errors.ts";
import type { Run } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import type { Deletion } from "../../../registry/contract.ts";
import { ENDED_STATES, type RunState } from "../../../runs/fields/lifecycle_states.ts";
import { timeMs } from "../../../runs/fields/field_json.ts";
import type { Context } from "../../link/context.ts";
import { runsVerb } from "../../verb/each_run.ts";
import { ago, bytes } from "../../../base/text/format.ts";
import { table } from "../../text/table.ts";
import { stateStyle } from "../../text/text.ts";

/** Further runs are counted. */
const MOST_SHOWN = 20;

export const define = runsVerb({
  description:
    "Deletes ended runs permanently: registry entry, telemetry, logs, checkpoints and all other files. Nothing is deleted unless all of the runs can be. On a terminal it shows them and asks.",
  examples: [
    ["mosaic delete 01K9ZQ", "delete one run"],
    ["mosaic delete -t scratch -s failed", "delete the failed runs with a tag"],
    ["mosaic prune --older-than 30d --dry-run", "show what a policy would delete"],
  ],
  exits: { 0: "deleted, or nothing was done", 4: "no such run", 6: "a run is still live (mosaic cancel ends it)" },
  states: ENDED_STATES,
  confirm: question,
  request: async (link, ref): Promise<z.infer<typeof Deletion>> => {
    const { freedBytes } = await link.unary(link.methods.deleteRun, { run: ref });
    return { run_id: ref, freed_bytes: Number(freedBytes) };
  },
  line: ({ run_id, freed_bytes }) => `${run_id}  deleted, ${bytes(freed_bytes)} freed`,
  json: (deletion) => deletion,
});

/** What goes. @throws MosaicError `failed_precondition` for a run that is still live */
function question(runs: readonly Run[], { terminal, now }: Context): string {
  const live = runs.filter(({ state }) => !ENDED_STATES.includes(state as RunState));
  if (live.length > 0) {
    const which = live.map(({ runId, state }) => `${runId} is ${state}`).join(", ");
    throw new MosaicError("failed_precondition", `nothing was deleted: ${which}`, {
      hint: "mosaic cancel ends a run; name only runs that have ended.",
    });
  }
  const shown = table<Run>(
    [
      { name: "run", text: (run) => run.runId },
      { name: "name", shrinkTo: 8, text: (run) => run.name },
      { name: "state", text: (run) => run.state, style: (run) => stateStyle(run.state) },
      { name: "ended", align: "right", text: (run) => ago(timeMs(run.finishedAt), now()) },
    ],
    runs.slice(0, MOST_SHOWN),
    { width: terminal.width, color: terminal.color },
  );
  const more = runs.length > MOST_SHOWN ? `and ${runs.length - MOST_SHOWN} more\n` : "";
  return `${shown}${more}Delete ${runs.length === 1 ? "this run" : `these ${runs.length} runs`} for good? [y/N] `;
}

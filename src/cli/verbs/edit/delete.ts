/** `mosaic delete` */
import type { z } from "zod";
import type { Deletion } from "../../../registry/contract.ts";
import { runsVerb } from "../../verb/each_run.ts";
import { bytes } from "../../../base/text/format.ts";

export const define = runsVerb({
  description: "Deletes ended runs permanently: registry entry, telemetry, logs, checkpoints and all other files.",
  examples: [
    ["mosaic delete 01K9ZQ", "delete one run"],
    ["mosaic prune --older-than 30d --dry-run", "show what a policy would delete"],
  ],
  exits: { 0: "deleted", 4: "no such run", 6: "a run is still live (mosaic cancel ends it)" },
  request: async (link, ref): Promise<z.infer<typeof Deletion>> => {
    // By its full id, because a prefix may match another run after the deletion.
    const { runId } = await link.unary(link.methods.getRun, { run: ref });
    const { freedBytes } = await link.unary(link.methods.deleteRun, { run: runId });
    return { run_id: runId, freed_bytes: Number(freedBytes) };
  },
  line: ({ run_id, freed_bytes }) => `${run_id}  deleted, ${bytes(freed_bytes)} freed`,
  json: (deletion) => deletion,
});

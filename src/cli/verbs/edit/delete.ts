/** `mosaic delete` */
import type { z } from "zod";
import { MosaicError } from "../../../base/errors.ts";
import type { Deletion } from "../../../registry/contract.ts";
import { ENDED_STATES, stateWord } from "../../../runs/fields/lifecycle_states.ts";
import { timeMs } from "../../../runs/fields/field_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import type { Context } from "../../link/context.ts";
import { runsVerb } from "../../verb/each_run.ts";
import { ago, bytes } from "../../../base/text/format.ts";
import { table } from "../../text/table.ts";
import { stateStyle } from "../../text/text.ts";

/** Further runs are counted. */
const MOST_SHOWN = 20;

export const define = runsVerb({
  description:
    "Puts ended runs into the trash. mosaic restore brings them back, for a week (daemon: --keep-deleted); then registry " +
    "entry, telemetry, logs, checkpoints and all other files are removed. Nothing is deleted unless all of the runs can " +
    "be. On a terminal it shows them and asks.",
  options: (command) =>
    command.option("--forever", "remove them for good and free the space, also from the trash"),
  examples: [
    ["mosaic delete 01K9ZQ", "put one run into the trash"],
    ["mosaic delete -t scratch -s failed", "the failed runs with a tag"],
    ["mosaic prune --older-than 30d --dry-run", "show what a policy would remove for good"],
  ],
  exits: {
    0: "deleted, or nothing was done",
    4: "no such run",
    6: "a run is still live (mosaic cancel ends it)",
  },
  states: ENDED_STATES,
  trash: (flags) => flags["forever"] === true ? "also" : "never",
  confirm: question,
  request: async (link, ref, flags): Promise<z.infer<typeof Deletion>> => {
    const { freedBytes, keptUntil } = await link.unary(link.methods.deleteRun, {
      run: ref,
      forever: flags["forever"] === true,
    });
    const until = timeMs(keptUntil);
    const kept_until = until === null ? null : new Date(until).toISOString();
    return { run_id: ref, freed_bytes: Number(freedBytes), kept_until };
  },
  line: ({ run_id, freed_bytes, kept_until }) =>
    kept_until === null
      ? `${run_id}  deleted, ${bytes(freed_bytes)} freed`
      : `${run_id}  in the trash until ${kept_until.slice(0, 10)}`,
  json: (deletion) => deletion,
});

/** What goes. @throws MosaicError `failed_precondition` for a run that is still live */
function question(
  runs: readonly RunJson[],
  { terminal, now }: Context,
  flags: Record<string, unknown>,
): string {
  const live = runs.filter(({ state }) => !ENDED_STATES.includes(state));
  if (live.length > 0) {
    const which = live.map(({ run_id, state }) => `${run_id} is ${stateWord(state).toLowerCase()}`)
      .join(", ");
    throw new MosaicError("failed_precondition", `nothing was deleted: ${which}`, {
      hint: "mosaic cancel ends a run; name only runs that have ended.",
    });
  }
  const shown = table<RunJson>(
    [
      { name: "run", text: (run) => run.run_id },
      { name: "name", shrinkTo: 8, text: (run) => run.name },
      { name: "state", text: (run) => stateWord(run.state), style: (run) => stateStyle(run.state) },
      {
        name: "ended",
        align: "right",
        text: (run) => ago(run.finished_at === null ? null : Date.parse(run.finished_at), now()),
      },
    ],
    runs.slice(0, MOST_SHOWN),
    { width: terminal.width, color: terminal.color },
  );
  const more = runs.length > MOST_SHOWN ? `and ${runs.length - MOST_SHOWN} more\n` : "";
  const which = runs.length === 1 ? "this run" : `these ${runs.length} runs`;
  const where = flags["forever"] === true ? " for good" : "";
  return `${shown}${more}Delete ${which}${where}? [y/N] `;
}

/** `mosaic reindex` */
import type { Command } from "commander";
import { resolveStateDir } from "../../../base/layout.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Reads a run's logs, and the tracker files that its proxy observed, and stores the records that telemetry " +
        "lacks: all of them if the database was deleted, the newest if an older copy was restored, single ones if it " +
        "was damaged. Records keep their seq. No daemon may be running on the state directory.",
    )
    .argument("<run>", "id, unique beginning of an id, or name")
    .option("--state-dir <dir>", "state directory (default: as for the daemon)")
    .addHelpText(
      "after",
      manual({
        examples: [[
          "mosaic reindex cartpole-1",
          "repair one run; mosaic doctor --repair repairs all",
        ]],
        exits: {
          0: "every record of the logs and files is stored",
          4: "no such directory or run",
          6: "a daemon is running, or the logs lack the missing records",
        },
      }),
    )
    .action(async (name: string, options: { stateDir?: string }) => {
      const { reindex } = await import("../../../state/doctor/doctor.ts");
      const { runId, outcome } = reindex(resolveStateDir(options.stateDir, context.env), name);
      context.out.write(`${runId}  ${outcome}\n`);
    });
}

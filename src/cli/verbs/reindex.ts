/** `mosaic reindex` */
import type { Command } from "commander";
import { resolveStateDir } from "../../base/layout.ts";
import { manual } from "../verb_parser.ts";
import type { Context } from "../context.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Reads the logs of a run, and the trackers' files that its proxy observed, again and stores what telemetry.sqlite " +
        "lacks of them: all of it where the database was deleted, the end where an older copy was put back, single records where damage took them. Records keep their " +
        "numbers. No daemon may be running on the state directory.",
    )
    .argument("<run>", "id, unique beginning of an id, or name")
    .option("--state-dir <dir>", "state directory (default: as for the daemon)")
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic reindex cartpole-1", "fill what is missing of one run; mosaic doctor --repair fills all"]],
        exits: {
          0: "all that the logs and files have is stored",
          4: "no such directory or run",
          6: "a daemon runs, or the logs do not have what is missing",
        },
      }),
    )
    .action(async (name: string, options: { stateDir?: string }) => {
      const { reindex } = await import("../../doctor/doctor.ts");
      const { runId, outcome } = reindex(resolveStateDir(options.stateDir, context.env), name);
      context.out.write(`${runId}  ${outcome}\n`);
    });
}

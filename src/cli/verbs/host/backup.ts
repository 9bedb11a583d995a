/** `mosaic backup` */
import type { Command } from "commander";
import { resolveStateDir } from "../../../base/layout.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { Progress } from "../../link/progress.ts";
import { outputOption } from "../../verb/flags.ts";
import { bytes, count } from "../../../base/text/format.ts";
import { escapeControl } from "../../text/text.ts";

export function define(command: Command, caller: Context, result: { code: number }): void {
  command
    .description(
      "Copies a state directory, beside its daemon or without one; runs continue. Both databases are copied from the same moment, " +
        "and every copy is read back and checked. If the directory holds an earlier backup, " +
        "the databases and the changed files are copied.\n\nTo restore, copy the backup to the place of the state " +
        "directory, and start a daemon there: mosaic up --state-dir DIR. Runs that were live are then finished from their " +
        "logs; their workers stay with the original.",
    )
    .argument("<dir>", "directory of the backup; created if there is none")
    .option("--state-dir <dir>", "state directory (default: as for the daemon)")
    .option(
      "--secrets",
      "copy tokens and the webhooks' key, too; every program of this user can read them there",
    );
  outputOption(command, ["table", "json"])
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic backup backups/mosaic", "make or update a backup"],
          ["mosaic backup -o json backups/mosaic", "print what was copied, for a script"],
        ],
        exits: {
          0: "everything is copied and checked",
          1: "files could not be read; stderr names them, the others are copied",
          3: "a disk cannot be written, or does not read as it was written",
          4: "there is no such state directory",
          6: "the directory holds something else, or is in use",
        },
      }),
    )
    .action(
      async (directory: string, options: { stateDir?: string; secrets?: true; output: string }) => {
        using progress = new Progress(caller);
        const { context } = progress;
        const { backUp } = await import("../../../state/archive/backup.ts");
        const stateDir = resolveStateDir(options.stateDir, context.env);
        const done = await backUp(stateDir, resolveStateDir(directory, context.env), {
          secrets: options.secrets === true,
          onProgress: progress.report,
        });
        for (const what of done.left_out) {
          context.err.write(`mosaic: not copied: ${escapeControl(what)}\n`);
        }
        if (done.left_out.length > 0) result.code = 1;
        if (options.output === "json") {
          return context.out.write(`${JSON.stringify(done, null, 2)}\n`);
        }
        context.out.write(
          `${escapeControl(done.directory)}: ${count(done.runs)} runs (${
            count(done.live_runs)
          } live), ` +
            `${count(done.files)} files (${count(done.copied_files)} copied, ${
              bytes(done.copied_bytes)
            }), ` +
            `databases ${bytes(done.database_bytes)}; all read back${
              done.secrets ? "" : "; without tokens and keys (--secrets)"
            }\n`,
        );
      },
    );
}

/** `mosaic import-worker` */
import type { Command } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

const FLUSH_CHARACTERS = 64 << 10;

export function define(command: Command, context: Context): void {
  command
    .description(
      "The worker of an imported run: reads the files of a past run and prints their curves, texts and episodes on " +
        "standard output as the records that mosaic stores, with their own steps and times; what the run itself printed " +
        "goes to standard error. mosaic import starts it.",
    )
    .argument("[file...]", "files of one run (docs/reference/formats.md)")
    .addHelpText(
      "after",
      manual({
        environment: [["MOSAIC_ATTEMPT", "above 1 it refuses: the run has the records already"]],
        examples: [
          ["mosaic import-worker runs/ppo/progress.csv | head", "see what would be stored"],
          ["mosaic import runs/ppo", "store it"],
        ],
        exits: {
          0: "all was printed",
          4: "there is no such file",
          6: "a further attempt",
          8: "no regular file",
        },
      }),
    )
    .action(async (files: string[]) => {
      if (Number(context.env("MOSAIC_ATTEMPT") ?? 1) > 1) {
        throw new MosaicError(
          "failed_precondition",
          "an import has one attempt: another would store its records again",
          {
            hint: "Delete the run (mosaic delete) and import the files anew.",
          },
        );
      }
      const [{ Lines }, { baseName, recordsOfSource, sourcesOf }, { MAX_METRICS }] = await Promise
        .all([
          import("../../../readers/import/record_lines.ts"),
          import("../../../readers/import/read.ts"),
          import("../../../telemetry/commit/series_writer.ts"),
        ]);
      const lines = new Lines(MAX_METRICS);
      let text = "";
      const print = (more: string) => {
        text += more;
        if (text.length < FLUSH_CHARACTERS) return;
        context.out.write(text);
        text = "";
      };
      for (const source of sourcesOf(files)) {
        const records = recordsOfSource(
          source,
          (path, problem) => lines.problem(baseName(path), problem),
        );
        for (const record of records) {
          if (record.kind === "output") context.err.write(record.text);
          print(lines.add(record, source.label));
        }
        print(lines.flush());
      }
      // Lists of texts, because numbers would become series.
      const payload = { files: files.map(baseName), left_out: lines.leftOut() };
      context.out.write(`${text}${JSON.stringify({ event: "import_completed", payload })}\n`);
    });
}

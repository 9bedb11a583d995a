/** `mosaic observe` */
import { resolve } from "node:path";
import type { Command } from "commander";
import { count } from "../../../base/text/format.ts";
import type { ObservedFiles } from "../../../registry/contract.ts";
import type { z } from "zod";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { EXIT } from "../../link/exit.ts";
import { type Column, table } from "../../text/table.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { manual } from "../../verb/verb_parser.ts";

/** A large file is read to its end before the answer. */
const PATIENCE_MS = 30 * 60_000;

type FileJson = z.infer<typeof ObservedFiles>["files"][number];

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Reads further files as a run's, as --observe of mosaic run does: tables, JSON lines, event files, logs. While the run " +
        "runs, they are read from now on, and from their beginning; after its end they are read once, and again only what " +
        "has been appended. A pattern leaves out what is older than the run. Prints each file, and what is read of it. Each point is stored once, however often a file is named.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .argument(
      "<file...>",
      "files, directories, or patterns with *, ? and ** (quoted); relative to this directory",
    );
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic observe @last training.csv", "read a table whose name no tracker uses"],
          ["mosaic observe @last results", "read all files below a directory"],
        ],
        exits: {
          0: "the files are read, or will be",
          4: "no such run, or no such file of an ended run",
          6: "its files cannot be read now",
        },
      }),
    )
    .action(async (run: string, names: string[], flags: Record<string, unknown>) => {
      const patterns = names.map((name) => resolve(name));
      using link = await Link.open(context, connectionFlags(flags));
      const answer = await link.unary(
        link.methods.observeFiles,
        { run, patterns },
        undefined,
        PATIENCE_MS,
      );
      const { runId: run_id, observed, finishedAt } = answer.run!;
      const files: FileJson[] = answer.files.map(({ path, format, records, note }) => ({
        ...{ path, format: format || null, records: Number(records), note: note || null },
      }));
      if (flags["output"] === "json") {
        context.out.write(
          `${
            JSON.stringify(
              { run_id, observed, files } satisfies z.infer<typeof ObservedFiles>,
              null,
              2,
            )
          }\n`,
        );
      } else {
        const { isTty, width, color } = context.terminal;
        context.out.write(table(COLUMNS, files, { width: isTty ? width : undefined, color }));
      }
      const isRead = files.some(({ format }) => format !== null);
      result.code = finishedAt !== undefined && !isRead ? EXIT.notFound : EXIT.ok;
    });
}

const COLUMNS: Column<FileJson>[] = [
  { name: "file", shrinkTo: 20, text: (f) => f.path },
  { name: "format", text: (f) => f.format ?? "" },
  { name: "points", align: "right", text: (f) => f.format === null ? "" : count(f.records) },
  { name: "note", text: (f) => f.note ?? "", style: () => "dim" },
];

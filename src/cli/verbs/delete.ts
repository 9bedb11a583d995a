/** `mosaic delete` */
import type { Command } from "commander";
import type { z } from "zod";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { exitOfError } from "../exit.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "../flags.ts";
import { bytes } from "../format.ts";
import { Link } from "../daemon_link.ts";
import type { Deletion } from "../shapes.ts";
import { harmless } from "../text.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description("Deletes ended runs permanently: registry entry, telemetry, logs, checkpoints and all other files.")
    .argument("<run...>", RUN_ARGUMENT);
  connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic delete 01K9ZQ", "delete one run"],
          ["mosaic prune --older-than 30d --dry-run", "show what a policy would delete"],
        ],
        exits: { 0: "deleted", 4: "no such run", 6: "a run is still live (mosaic cancel ends it)" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const deleted: z.infer<typeof Deletion>[] = [];
      for (const ref of refs) {
        try {
          // Resolve to the full id first: once this run is deleted, a prefix may match another run.
          const { runId } = await link.unary(link.methods.getRun, { run: ref });
          const { freedBytes } = await link.unary(link.methods.deleteRun, { run: runId });
          deleted.push({ run_id: runId, freed_bytes: Number(freedBytes) });
          if (flags["output"] === "table") {
            context.out.write(`${runId}  deleted, ${bytes(Number(freedBytes))} freed\n`);
          }
        } catch (error) {
          if (!(error instanceof MosaicError) || refs.length === 1) throw error;
          context.err.write(`mosaic: ${harmless(`${ref}: ${messageOf(error)}`)}\n`);
          result.code ||= exitOfError(error);
        }
      }
      if (flags["output"] === "json") context.out.write(`${JSON.stringify(deleted, null, 2)}\n`);
      if (flags["output"] === "jsonl") context.out.write(deleted.map((d) => `${JSON.stringify(d)}\n`).join(""));
    });
}

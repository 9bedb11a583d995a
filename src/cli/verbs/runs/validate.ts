/** `mosaic validate` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { outputOption } from "../../verb/flags.ts";
import { check } from "./submit.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Checks a config without submitting it and prints every violation with its path. Needs no daemon.",
    )
    .argument("<file>", "config file, or - for standard input")
    .option("--canonical", "print the canonical form, whose SHA-256 is the digest");
  outputOption(command, ["table", "json"])
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic validate train.json", "now: mosaic submit --check train.json"],
          [
            "mosaic validate --canonical train.json | sha256sum",
            "compute the digest with sha256sum",
          ],
        ],
        exits: { 0: "valid", 2: "not valid", 4: "no such file" },
      }),
    )
    .action(async (file: string, flags: Record<string, unknown>) => {
      result.code = await check(file, flags, context);
    });
}

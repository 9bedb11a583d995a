/** `mosaic validate` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT } from "../../link/exit.ts";
import { outputOption } from "../../verb/flags.ts";
import { escapeControl } from "../../text/text.ts";
import { readConfigText } from "./submit.ts";

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
          ["mosaic validate --canonical train.json | sha256sum", "compute the digest with sha256sum"],
        ],
        exits: { 0: "valid", 2: "not valid", 4: "no such file" },
      }),
    )
    .action(async (file: string, flags: Record<string, unknown>) => {
      result.code = await check(file, flags, context);
    });
}

/** Prints a config's digest, its canonical form, or its violations. @returns the exit code */
export async function check(file: string, flags: Record<string, unknown>, context: Context): Promise<number> {
  const text = await readConfigText(file, context);
  const { readConfig, violationsOf } = await import("../../../config/config.ts");
  const violations = violationsOf(text);
  const valid = violations.length === 0;
  const digest = valid ? readConfig(text).digest : null;
  if (flags["output"] === "json") {
    context.out.write(`${JSON.stringify({ valid, digest, violations }, null, 2)}\n`);
  } else if (!valid) {
    for (const { path, message } of violations) context.err.write(`${escapeControl(`${path} ${message}`)}\n`);
    context.err.write(`mosaic: ${file}: ${violations.length} violation${violations.length === 1 ? "" : "s"}\n`);
  } else if (flags["canonical"] === true) {
    // No newline: the digest is the SHA-256 of exactly this text.
    context.out.write(readConfig(text).canonicalJson);
  } else {
    context.out.write(`valid, digest ${digest}\n`);
  }
  return valid ? EXIT.ok : EXIT.usage;
}

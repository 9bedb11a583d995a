/** `mosaic rerun` */
import { type Command, InvalidArgumentError } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { HIDDEN } from "../../../base/text/secrets.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { manual } from "../../verb/verb_parser.ts";
import { FOLLOW_EXITS, submit, type SubmitOptions } from "./submit.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Submits a run again, as a new run. It starts in the same directory with the code that is there now; with --at-commit, from " +
        "its commit with the changes that were recorded, in a copy that is removed with the new run. What cannot be had again is " +
        "said: files that were not recorded, packages that differ.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option(
      "--set <name=value>",
      "change a parameter of its command line or config (repeatable)",
      setting,
    )
    .option("--seed <n>", "change the parameter that is its seed")
    .option("--at-commit", "with the code that ran, not the code of now")
    .option("--repository <dir>", "with --at-commit: another clone that has the commit")
    .option("--incomplete", "with --at-commit: also if part of its code was not recorded")
    .option("-n, --name <name>", "name of the new run (default: the same)")
    .option("-f, --follow", "print the run's events until it has ended; exit code by its outcome")
    .option("--dry-run", "print the config instead of submitting it");
  connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic rerun @last --seed 7", "the newest run with another seed"],
          ["mosaic rerun 01K9ZQ --set lr=1e-4 --set batch-size=64", "other parameters"],
          ["mosaic rerun 01K9ZQ --at-commit --follow", "the code as it was then"],
        ],
        exits: { ...FOLLOW_EXITS, 6: "the code that ran cannot be had again" },
      }),
    )
    .action(async (ref: string, flags: Record<string, unknown>) => {
      const { configJson, options } = await repeated(context, ref, flags);
      if (flags["dryRun"] === true) return context.out.write(`${configJson}\n`);
      result.code = await submit(context, configJson, flags, options);
    });
}

function setting(text: string, before: [string, string][] = []): [string, string][] {
  const at = text.indexOf("=");
  if (at <= 0) throw new InvalidArgumentError("It must be NAME=VALUE.");
  return [...before, [text.slice(0, at), text.slice(at + 1)]];
}

async function repeated(
  context: Context,
  ref: string,
  flags: Record<string, unknown>,
): Promise<{ configJson: string; options: SubmitOptions }> {
  using link = await Link.open(context, connectionFlags(flags));
  const run = await link.unary(link.methods.getRun, { run: ref });
  if (run.configJson.includes(HIDDEN)) {
    throw new MosaicError(
      "permission_denied",
      "the config has secrets, which the daemon hides from this token",
      {
        hint: "Use the admin token, or the daemon's socket as its user.",
      },
    );
  }
  const { repeatRun } = await import("../../code/repeat_run.ts");
  return await repeatRun(context, link, run, {
    settings: (flags["set"] ?? []) as [string, string][],
    seed: flags["seed"] as string | undefined,
    name: flags["name"] as string | undefined,
    atCommit: flags["atCommit"] === true,
    repository: flags["repository"] as string | undefined,
    incomplete: flags["incomplete"] === true,
    isDry: flags["dryRun"] === true,
    here: flags["target"] === undefined && !context.env("MOSAIC_TARGET"),
  });
}

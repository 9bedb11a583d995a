/** `mosaic sweep`: begins a sweep; its verbs are in the files beside this one. */
import type { Command } from "commander";
import { describedOptions } from "../../verb/sweep_options.ts";
import { manual } from "../../verb/verb_parser.ts";
import { connectionOptions, durationValue, outputOption, wholeNumber } from "../../verb/flags.ts";
import type { Context } from "../../link/context.ts";
import { queueOptions } from "../../verb/queue_flags.ts";
import { runOptions } from "../runs/run.ts";
import { beginSweep } from "./begin.ts";
import { changeVerbs } from "./change.ts";
import { showVerbs } from "./sweep_show.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Tries a command, or a file's sweep, with many values of its parameters. Each trial is a run of its own; the daemon " +
        "makes them one after the other and goes on after its own death. {lr} in the command is the value of the parameter lr. " +
        "Prints the sweep's name.",
    )
    .usage(
      "[options] -- COMMAND [ARGUMENTS]\n       mosaic sweep [options] FILE\n       mosaic sweep list|show|pause|resume|cancel|extend|retry|delete …",
    )
    .passThroughOptions()
    .argument(
      "<command...>",
      "the program and its arguments; or one file that ends in .yaml, .yml or .json",
    )
    .option(
      "-f, --follow",
      "wait until the sweep has ended, then show it; exit code 1 if trials failed",
    );
  describedOptions(command)
    .option(
      "--array <indices>",
      "indices such as 0-99%8 (at most 8 at once), as {index} and MOSAIC_ARRAY_INDEX",
    )
    .option("--pass <how>", "append parameters that nothing names: flags (--lr=1) or hydra (lr=1)")
    .option("--metric <name>", "what is compared, such as eval/mean_reward:max")
    .option(
      "--stop <rule>",
      "stop bad trials early: asha, hyperband, median or pbt, as in asha:max=100000,min=1000,reduction=3",
    )
    .option(
      "--optimizer",
      "ask a program on standard input and output for each point (mosaic-optimizer/1)",
    )
    .option(
      "--optimizer-timeout <duration>",
      "how long it may think about an answer (default: 5m)",
      durationValue,
    )
    .option("--sweep-name <name>", "name of the sweep (default: --name, else from the command)");
  queueOptions(runOptions(command)).option(
    "--dry-run",
    "print the command line of each trial, and start nothing",
  );
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        details:
          "Files, early stopping, budgets and extensions: docs/how-to/sweeps.md. See also: mosaic sweep show --help",
        examples: [
          ["mosaic sweep --grid lr=1e-3,3e-4 --seeds 1..8 -- python x.py {lr} {seed}", "16 trials"],
          [
            "mosaic sweep --random 40 --space 'lr=log(1e-5,1e-2)' -- python x.py {lr}",
            "40 random values",
          ],
          ["mosaic sweep --array 0-99%8 -- python job.py {index}", "100 runs, at most 8 at once"],
          ["mosaic sweep --dry-run sweep.yaml", "what a file would start"],
          ["mosaic sweep list", "their names and progress; sweep show NAME shows one"],
        ],
        exits: {
          0: "the sweep has begun; with --follow: no trial failed",
          1: "with --follow: trials failed",
          2: "wrong arguments, or a file with an error (its line is named)",
          4: "no such file, program or sweep",
          6: "a sweep of this name exists",
          130: "interrupted; the sweep continues",
        },
      }),
    )
    .action(async (words: string[], flags: Record<string, unknown>) => {
      result.code = await beginSweep(words, flags, context);
    });
  showVerbs(command, context, result, wholeNumber(1));
  changeVerbs(command, context, result);
}

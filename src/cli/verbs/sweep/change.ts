/** `mosaic sweep pause`, `resume`, `cancel`, `retry`, `extend` and `delete` */
import type { Command } from "commander";
import type { SweepJson } from "../../../sweeps/results/sweep_json.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { describedBy, describedOptions, naming } from "../../verb/sweep_options.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { escapeControl } from "../../text/text.ts";
import { FOLLOW_RETRY_MS } from "../runs/submit.ts";
import { followSweep } from "./follow.ts";
import { statesLine } from "../../text/sweep_text.ts";
import { MosaicError } from "../../../base/errors.ts";

type Flags = Record<string, unknown>;

const VERBS = {
  pause:
    "Makes no further trials of a sweep. Those that are made go on: mosaic pause pauses a run.",
  resume: "Makes further trials of a sweep that was paused or cancelled.",
  cancel: "Makes no further trials of a sweep, and cancels those that live.",
  retry:
    "Starts another attempt of trials of a sweep: of those that failed, or of those that you name, such as stopped " +
    "ones. An attempt goes on from the newest checkpoint that the trial reported, and is not stopped early again.",
  extend:
    "Adds trials to a sweep: further seeds for all its points, more random points, or further values of a parameter " +
    "with all values of the others. Also changes its budget and how many trials run at once.",
  delete:
    "Removes a sweep that has ended, with its decisions and its place in lists. Its runs stay, with the tag " +
    "sweep:NAME: mosaic delete removes runs.",
} as const;

const EXAMPLES: Record<keyof typeof VERBS, [string, string][]> = {
  pause: [["mosaic sweep pause ppo", "no further trials for now"]],
  resume: [["mosaic sweep resume ppo", "go on"]],
  cancel: [["mosaic sweep cancel ppo", "end it and its live trials"]],
  retry: [
    ["mosaic sweep retry --failed ppo", "another attempt of what failed"],
    ["mosaic sweep retry ppo --trials 3,7", "two that were stopped early go on"],
  ],
  extend: [
    ["mosaic sweep extend ppo --seeds 9..16", "eight more seeds for every point"],
    [
      "mosaic sweep extend ppo --winner --seeds 9..16 -f",
      "eight more seeds for the best point; wait for them",
    ],
    ["mosaic sweep extend ppo --random 20", "20 more random points"],
    ["mosaic sweep extend ppo --budget 48h", "more time"],
  ],
  delete: [
    ["mosaic delete $(mosaic list -q -t sweep:ppo)", "its runs first"],
    ["mosaic sweep delete ppo", "then the sweep"],
  ],
};

export function changeVerbs(parent: Command, context: Context, result: { code: number }): void {
  for (const [verb, description] of Object.entries(VERBS) as [keyof typeof VERBS, string][]) {
    const command = parent.command(verb).description(description)
      .argument("<sweep>", "name or id of the sweep, or @last");
    if (verb === "retry") {
      command.option("--failed", "the trials that failed").option(
        "--trials <numbers>",
        "these trials, such as 3,7..9",
      );
    }
    if (verb === "extend") {
      describedOptions(command).option(
        "--winner",
        "the --seeds are for the best point only; none of them is stopped early",
      )
        .option("-f, --follow", "wait until the sweep has ended");
    }
    connectionOptions(outputOption(command, ["table", "json"]))
      .addHelpText(
        "after",
        manual({
          examples: EXAMPLES[verb],
          exits: { 4: "no such sweep", 6: "its state does not allow it" },
        }),
      )
      .action(async (sweep: string, flags: Flags) => {
        const trials = verb === "retry" ? await trialsOf(flags) : undefined;
        const extension = verb === "extend"
          ? await extensionOf(flags, context)
          : trials === undefined
          ? undefined
          : { trials };
        const follow = flags["follow"] === true;
        using link = await Link.open(context, connectionFlags(flags), {
          retryMs: follow ? FOLLOW_RETRY_MS : 0,
        });
        const like = flags["winner"] === true ? { like: await winnerOf(link, sweep) } : {};
        const extensionJson = extension === undefined
          ? ""
          : JSON.stringify({ ...extension, ...like });
        const action = verb === "retry" && trials === undefined ? "retry_failed" : verb;
        const changed = verb === "delete"
          ? await link.unary(link.methods.deleteSweep, { sweep })
          : await link.unary(link.methods.changeSweep, { sweep, action, extensionJson });
        const json = JSON.parse(changed.json) as SweepJson;
        context.out.write(
          flags["output"] === "json"
            ? `${JSON.stringify(json, null, 2)}\n`
            : `${escapeControl(json.name)}  ${verb === "delete" ? "deleted" : statesLine(json)}\n`,
        );
        result.code = follow ? await followSweep(link, context, json.name) : 0;
      });
  }
}

/** A trial of the best point. */
async function winnerOf(link: Link, sweep: string): Promise<number> {
  const { json } = await link.unary(link.methods.getSweep, { sweep, trials: 0 });
  const { name, detail, metric } = JSON.parse(json) as SweepJson;
  if (detail?.winner) return detail.winner.trial;
  throw new MosaicError("failed_precondition", `sweep ${name} has no best point yet`, {
    hint: metric === null
      ? "It has no metric: begin it with --metric NAME:max."
      : `No trial has a value of ${metric.name}.`,
  });
}

async function extensionOf(flags: Flags, context: Context): Promise<object> {
  const { pieces, budget, max_parallel } = await describedBy(flags, () => context.readInput());
  const { axes, space, ...more } = pieces;
  const nothing =
    axes.length + space.length + Object.keys(more).length + Object.keys(budget).length === 0;
  if (nothing && max_parallel === undefined) {
    throw new MosaicError("invalid_argument", "there is nothing to add", {
      hint: "Give --seeds, --random, --grid, --points, --budget or --max-parallel.",
    });
  }
  return {
    ...pieces,
    ...(Object.keys(budget).length === 0 ? {} : { budget }),
    ...(max_parallel === undefined ? {} : { max_parallel }),
  };
}

/**
 * @returns undefined for those that failed @throws MosaicError `invalid_argument` unless one of the
 * two is given
 */
async function trialsOf(flags: Flags): Promise<number[] | undefined> {
  const trials = flags["trials"] as string | undefined;
  if ((trials === undefined) === (flags["failed"] !== true)) {
    throw new MosaicError("invalid_argument", "give --failed or --trials, one of them", {
      hint: "For example --trials 3,7..9",
    });
  }
  if (trials === undefined) return undefined;
  const [{ wholeAxis }, { axisValues }] = await Promise.all([
    import("../../../sweeps/words.ts"),
    import("../../../sweeps/points.ts"),
  ]);
  return naming("--trials", () => axisValues(wholeAxis("trial", trials)) as number[]);
}

/** `mosaic report` */
import { type Command, Option } from "commander";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { bytes as sizeText, count } from "../../../base/text/format.ts";
import { infoIfThere, writeFileAtomic } from "../../../os/files/files.ts";
import { explainPath } from "../../../permissions/missing.ts";
import {
  inBatches,
  MOST_CHARTS,
  type ReportedRun,
  reportOf,
  type ReportOptions,
  type ReportReader,
} from "../../../runs/report/report.ts";
import type { Band } from "../../../telemetry/series/groups.ts";
import { manual } from "../../verb/verb_parser.ts";
import { isStandardOutput } from "../../link/standard_streams.ts";
import type { Context } from "../../link/context.ts";
import { fetchCode } from "../../code/fetch_code.ts";
import { Link } from "../../link/daemon_link.ts";
import { fetchRuns } from "../../link/fetch_runs.ts";
import { connectionFlags, connectionOptions, repeated, RUN_ARGUMENT } from "../../verb/flags.ts";
import { bandOption, GROUP_BY_HELP, GROUP_BY_OPTION } from "../../verb/group_by.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import { timeMs } from "../../../runs/fields/field_json.ts";
import { stepsOf } from "../../../runs/fields/run_texts.ts";
import { escapeControl } from "../../text/text.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Writes a report of runs: one HTML file with their totals, curves, notes, parameters and differences, which opens " +
        "from disk without mosaic and without a network.",
    )
    .argument("[run...]", RUN_ARGUMENT)
    .option("--where <filter>", "matching runs, such as 'lr<1e-3 and env_id=CartPole-v1'")
    .option("-t, --tag <tag>", "runs with this tag (repeatable: with all of them)", repeated)
    .option(
      "-m, --metric <name>",
      `series to draw (repeatable; default: the first ${MOST_CHARTS} that runs have)`,
      repeated,
    )
    .option(GROUP_BY_OPTION, `one row and one curve a group, with its spread: ${GROUP_BY_HELP}`)
    .addOption(bandOption())
    .option("--log", "logarithmic y axis")
    .option("--time", "x axis: seconds since a curve's first point, instead of step or episode")
    .option(
      "--overwritten",
      "also draw records that a later attempt, resumed from a checkpoint, recorded again",
    )
    .option("--title <text>", "heading of the report (default: the names of the runs)")
    .addOption(
      new Option("--out <file>", "where to write it; -: standard output").default(
        "mosaic-report.html",
      ),
    );
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        details:
          "Text values that look like secrets are hidden. Checkpoints, videos and logs are not in it: see mosaic " +
          "export --format mosaic.",
        examples: [
          ["mosaic report @last", "one run, to mosaic-report.html"],
          ["mosaic report -t sweep --group-by params --out sweep.html", "seeds as one curve"],
          ["mosaic report -t sweep -m policy_loss -m episode_reward", "two charts of each run"],
        ],
        exits: { 4: "no such run, no run that fits, or no such series" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const runs = await chosenRuns(link, refs, flags);
      const page = await reportOf(readerOf(link), context.now(), runs, optionsOf(flags));
      const file = String(flags["out"]);
      if (isStandardOutput(file)) {
        context.out.write(page);
        return;
      }
      try {
        const info = infoIfThere(file);
        // Renaming the page to this name would remove the device or pipe.
        if (info !== undefined && !info.isFile && !info.isDirectory && !info.isSymlink) {
          throw new MosaicError(
            "invalid_argument",
            `${file}: this is a pipe or a device, not a file`,
            {
              hint: "Name a file, or - for standard output.",
            },
          );
        }
        writeFileAtomic(file, page, { mode: 0o644 });
      } catch (error) {
        const known = explainPath(error, file);
        if (known instanceof MosaicError && known.code !== "not_found") throw known;
        if (known instanceof MosaicError) {
          throw new MosaicError("not_found", `${file}: its directory does not exist`, {
            cause: error,
          });
        }
        throw new MosaicError(
          "invalid_argument",
          `--out is "${file}", which cannot be written: ${messageOf(error)}`,
        );
      }
      const size = sizeText(new TextEncoder().encode(page).length);
      context.out.write(
        `${escapeControl(file)}  ${count(runs.length)} ${
          runs.length === 1 ? "run" : "runs"
        }, ${size}\n`,
      );
    });
}

function optionsOf(flags: Record<string, unknown>): ReportOptions {
  return {
    metrics: flags["metric"] as string[] | undefined,
    groupBy: flags["groupBy"] as string | undefined,
    band: flags["band"] as Band,
    log: flags["log"] === true,
    time: flags["time"] === true,
    overwritten: flags["overwritten"] === true,
    title: flags["title"] as string | undefined,
  };
}

function readerOf(link: Link): ReportReader {
  return {
    series: async (run) => (await link.unary(link.methods.listSeries, { run })).series,
    curve: async (run, name, buckets, overwritten) =>
      (await link.unary(link.methods.getSeries, { run, name, buckets, overwritten })).buckets,
  };
}

async function chosenRuns(
  link: Link,
  refs: string[],
  flags: Record<string, unknown>,
): Promise<ReportedRun[]> {
  const [where, tags] = [
    flags["where"] as string | undefined,
    flags["tag"] as string[] | undefined,
  ];
  const found = [...refs];
  if (where !== undefined || tags !== undefined) {
    const listed = await fetchRuns(link, { where: where ?? "", tags: tags ?? [] });
    found.push(...listed.toReversed().map(({ run_id }) => run_id));
    if (found.length === 0) throw new MosaicError("not_found", "no run matches --where and --tag");
  }
  if (found.length === 0) {
    throw new MosaicError("invalid_argument", "name the runs that the report is about", {
      hint: "By id, name or @last, or by --where or --tag.",
    });
  }
  return await details(link, found);
}

/** Each run once, however it was named. */
async function details(link: Link, refs: readonly string[]): Promise<ReportedRun[]> {
  const runs = await inBatches(refs, async (ref) => {
    const run = await link.unary(link.methods.getRun, { run: ref });
    const json = runDetailJsonOf(run);
    return {
      ...json,
      code: (await fetchCode(link, run.runId, false))[0],
      startedAt: timeMs(run.startedAt),
      finishedAt: timeMs(run.finishedAt),
      steps: stepsOf(json),
      episodes: json.telemetry.episodes,
      objective: json.telemetry.objective?.name,
    };
  });
  return [...new Map(runs.map((run) => [run.run_id, run])).values()];
}

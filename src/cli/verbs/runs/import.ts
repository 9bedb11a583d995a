/** `mosaic import` */
import type { Command } from "commander";
import type { z } from "zod";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { Layout } from "../../../base/layout.ts";
import { sleep } from "../../../base/time/sleep.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { Progress } from "../../link/progress.ts";
import { Link } from "../../link/daemon_link.ts";
import {
  bytesValue,
  connectionFlags,
  connectionOptions,
  type Format,
  outputOption,
  repeated,
  wholeNumber,
} from "../../verb/flags.ts";
import type { OnProgress } from "../../../base/text/progress_text.ts";
import { compact, count } from "../../../base/text/format.ts";
import type { ScannedRun } from "../../../readers/import/scan.ts";
import type { PlacedRun } from "../../../readers/import/trials.ts";
import type { Import } from "../../../registry/contract.ts";
import { table } from "../../text/table.ts";
import { escapeControl } from "../../text/text.ts";

type ImportJson = z.infer<typeof Import>;

const DEPTH = 8;
/** The daemon copies all records of the run. */
const IMPORT_MS = 3_600_000;

export function define(command: Command, caller: Context, result: { code: number }): void {
  command
    .description(
      "Imports past runs that programs have left on disk: TensorBoard event files, Stable-Baselines3's monitor.csv and " +
        "progress files, Lightning's metrics.csv, RLlib's and Tune's result.json, W&B's offline logs. Each directory that " +
        "has some, and each .wandb log, becomes a run with its curves, texts, episodes and parameters; trials of Tune and " +
        "jobs of Hydra's multirun become runs within a run. A file that is given by its path may also be another " +
        "table, or a program's printed output (.log, .out, .txt).\n\n" +
        "A file of mosaic export --format mosaic becomes the same run as on its host: id, states, records, logs.\n\n" +
        "The daemon starts a worker that reads the files, so it has to run on this host. Files that were imported " +
        "before are recognized by their content and not imported again.",
    )
    .argument("<path...>", "directories to search, or files (one run per file)")
    .option(
      "-n, --name <name>",
      "name of the run, if exactly one is found (default: the tracker's name, else the directory's)",
    )
    .option("-t, --tag <tag>", `a tag beside "imported", may be repeated`, repeated)
    .option(
      "--depth <n>",
      `directory levels to search below each path (default: ${DEPTH})`,
      wholeNumber(),
    )
    .option("--dry-run", "list what would be imported; needs no daemon")
    .option(
      "--max-unpacked <bytes>",
      "most bytes that a file of mosaic may unpack to, such as 20G (default: 100 times its size, at least 256 MiB)",
      bytesValue,
    )
    .option("-q, --quiet", "print the ids only");
  connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic import --dry-run runs", "list the runs below runs/, with the size of each"],
          ["mosaic import -t cleanrl runs", "import each run below it"],
          [
            "mosaic wait $(mosaic import -q runs) && mosaic list -t imported",
            "import, wait until all is stored, list",
          ],
        ],
        exits: {
          0: "submitted, or imported already",
          1: "some could not be read or submitted; the others are imported",
          2: "wrong arguments, a file of no known format, or a damaged one of mosaic",
          4: "no such path, or no tracker files in it",
        },
      }),
    )
    .action(async (paths: string[], flags: Record<string, unknown>) => {
      using progress = new Progress(caller);
      const { context } = progress;
      const { isRunFile } = await import("../../../state/archive/run_file.ts");
      const files = paths.filter(isRunFile);
      if (files.length > 0) {
        if (
          files.length < paths.length || flags["name"] !== undefined || flags["tag"] !== undefined
        ) {
          throw new MosaicError(
            "invalid_argument",
            `${files[0]} is a run of mosaic: it keeps its name and tags`,
            {
              hint:
                "Import such files on their own, without --name and --tag; mosaic edit changes them later.",
            },
          );
        }
        using link = flags["dryRun"] === true
          ? undefined
          : await Link.open(context, connectionFlags(flags));
        const done: ImportJson[] = [];
        const most = flags["maxUnpacked"] as number | undefined;
        for (const file of files) done.push(await importRunFile(link, file, most, progress.report));
        return print(context, done, flags["quiet"] === true ? "quiet" : flags["output"] as Format);
      }
      const found = await find(context, paths, Number(flags["depth"] ?? DEPTH));
      if (found.skipped) result.code = 1;
      const name = flags["name"] as string | undefined;
      const tops = found.runs.filter(({ place }) => place === undefined).length;
      if (name !== undefined && tops > 1) {
        throw new MosaicError(
          "invalid_argument",
          `--name is for one run, and ${tops} are found`,
          {
            hint: "Name the directory of one of them (mosaic import --dry-run lists them).",
          },
        );
      }
      const { importConfig } = await import("../../../readers/import/import_config.ts");
      const dryRun = flags["dryRun"] === true;
      using link = dryRun ? undefined : await Link.open(context, connectionFlags(flags));
      const done: ImportJson[] = [];
      const { programIdOf, runIdOf, scanRun } = await import("../../../readers/import/scan.ts");
      /** Of the directories of programs, their runs. */
      const programs = new Map<string, { run: string; name: string }>();
      for (const [at, directory] of found.runs.entries()) {
        try {
          const run = scanRun(directory, (records) => {
            const total = found.runs.length;
            progress.report(
              total > 1
                ? { name: "import", unit: "runs", done: at, total }
                : { name: "import", unit: "records read", done: records, total: 0 },
            );
          });
          const { series, points, episodes, texts } = run.counts;
          const trial = found.runs[at + 1];
          const isProgram = trial?.place?.of === run.directory && directory.place === undefined;
          if (run.files.length === 0) run.runId = programIdOf(runIdOf(trial!.files));
          if (!isProgram && points + episodes + texts + Object.keys(run.parameters).length === 0) {
            context.err.write(
              `mosaic: ${
                escapeControl(run.directory)
              }: ${run.files.length} files without records\n`,
            );
            for (const what of run.leftOut) context.err.write(`  ${escapeControl(what)}\n`);
            continue;
          }
          const config = importConfig(run, {
            name,
            tags: flags["tag"] as string[] | undefined ?? [],
            within: withinOf(directory, programs),
          });
          const entered = link === undefined
            ? { run_id: run.runId, name: String(config["run_name"]), status: "found" as const }
            : await enter(link, run, config);
          if (isProgram) programs.set(run.directory, { run: entered.run_id, name: entered.name });
          done.push({
            ...entered,
            ...{
              directory: run.directory,
              files: run.files.length,
              series,
              points,
              episodes,
              texts,
            },
            parameters: Object.keys(run.parameters).length,
            left_out: run.leftOut,
          });
        } catch (error) {
          // A file that the system refuses affects only this run; an unreachable daemon affects
          // all.
          const refused = /\(os error \d+\)/.test(messageOf(error));
          if (!(error instanceof MosaicError ? error.code !== "unavailable" : refused)) {
            print(context, done, flags["quiet"] === true ? "quiet" : flags["output"] as Format);
            throw error;
          }
          result.code = 1;
          context.err.write(
            `mosaic: ${escapeControl(`${directory.directory}: ${messageOf(error)}`)}\n`,
          );
          if (error instanceof MosaicError && error.hint !== undefined) {
            context.err.write(`  ${escapeControl(error.hint)}\n`);
          }
        }
      }
      print(context, done, flags["quiet"] === true ? "quiet" : flags["output"] as Format);
    });
}

/** Where a trial goes; undefined also if its program's run could not be made. */
function withinOf(
  { place }: PlacedRun,
  programs: ReadonlyMap<string, { run: string; name: string }>,
) {
  const program = place && programs.get(place.of);
  return program && { ...program, place: place!.key, placeName: place!.name };
}

/**
 * A run that mosaic has exported becomes the same run here. @param link undefined: it is only read
 * and checked
 */
async function importRunFile(
  link: Link | undefined,
  path: string,
  most: number | undefined,
  onProgress: OnProgress,
): Promise<ImportJson> {
  const { RunFile } = await import("../../../state/archive/run_file.ts");
  using file = new RunFile(path);
  const { runId, files } = file;
  const known = link === undefined ? undefined : await existing(link, runId);
  if (link !== undefined && known === undefined) {
    const { stateDir } = await link.unary(link.methods.getHost, {});
    const directory = `${runId}-${crypto.randomUUID()}`;
    file.unpack(`${new Layout(stateDir).imports}/${directory}`, most, onProgress);
    await link.unary(link.methods.importRun, { directory }, undefined, IMPORT_MS);
  }
  const [run, series] = link === undefined ? [] : await Promise.all([
    link.unary(link.methods.getRun, { run: runId }),
    link.unary(link.methods.listSeries, { run: runId }),
  ]);
  return {
    run_id: runId,
    name: run?.name ?? "",
    status: link === undefined ? "found" : known?.status ?? "imported",
    ...{
      directory: path,
      files,
      series: series?.series.length ?? 0,
      points: Number(run?.telemetry?.metrics ?? 0),
    },
    ...{
      episodes: Number(run?.telemetry?.episodes ?? 0),
      texts: 0,
      parameters: run?.parameters.length ?? 0,
    },
    left_out: [],
  };
}

async function find(context: Context, paths: readonly string[], depth: number) {
  const { findRuns } = await import("../../../readers/import/find.ts");
  const all = paths.map((path) => findRuns(path, depth));
  const skipped = all.flatMap((found) => found.skipped);
  for (const what of skipped) context.err.write(`mosaic: ${escapeControl(what)}\n`);
  // A directory may be named twice, or be below another.
  const runs = new Map(
    all.flatMap((found) => found.runs).map((run) => [run.files.join("\0"), run]),
  );
  return { runs: [...runs.values()], skipped: skipped.length > 0 };
}

type Entered = Pick<ImportJson, "run_id" | "name" | "status">;

/** Submits the run, unless a run with this content exists. */
async function enter(
  link: Link,
  run: ScannedRun,
  config: Record<string, unknown>,
): Promise<Entered> {
  const known = await existing(link, run.runId);
  if (known !== undefined) return known;
  const { TrainerService } = await import("../../../gen/gymgui/trainer_pb.ts");
  for (;;) {
    try {
      const request = { runId: run.runId, configJson: JSON.stringify(config) };
      const { runId } = await link.unary(TrainerService.method.submitRun, request);
      return { run_id: runId, name: String(config["run_name"]), status: "submitted" };
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code !== "resource_exhausted") throw error;
      if (error.retryAfterMs === undefined) throw error;
      // More submissions a second than the daemon accepts.
      await sleep(error.retryAfterMs);
    }
  }
}

async function existing(link: Link, runId: string): Promise<Entered | undefined> {
  try {
    const { name } = await link.unary(link.methods.getRun, { run: runId });
    return { run_id: runId, name, status: "already imported" };
  } catch (error) {
    if (error instanceof MosaicError && error.code === "not_found") return undefined;
    throw error;
  }
}

function print(context: Context, runs: readonly ImportJson[], format: Format | "quiet"): void {
  if (format === "json") return context.out.write(`${JSON.stringify(runs, null, 2)}\n`);
  if (format === "jsonl") {
    return context.out.write(runs.map((run) => `${JSON.stringify(run)}\n`).join(""));
  }
  const { terminal } = context;
  for (const { directory, left_out } of runs) {
    for (const what of left_out) {
      context.err.write(`mosaic: ${escapeControl(`${directory}: left out: ${what}`)}\n`);
    }
  }
  if (format === "quiet") {
    return context.out.write(runs.map(({ run_id }) => `${run_id}\n`).join(""));
  }
  if (runs.length === 0) return;
  context.out.write(table<ImportJson>(
    [
      { name: "run", text: (r) => r.run_id },
      { name: "name", shrinkTo: 12, text: (r) => r.name },
      { name: "series", align: "right", text: (r) => count(r.series) },
      { name: "points", align: "right", text: (r) => compact(r.points) },
      { name: "episodes", align: "right", text: (r) => compact(r.episodes) },
      { name: "texts", align: "right", text: (r) => count(r.texts) },
      { name: "params", align: "right", text: (r) => count(r.parameters) },
      { name: "status", text: (r) => r.status },
      { name: "directory", shrinkTo: 12, text: (r) => r.directory },
    ],
    runs,
    { width: terminal.isTty ? terminal.width : undefined, color: terminal.color },
  ));
}

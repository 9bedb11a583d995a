/** `mosaic prune` */
import type { Command } from "commander";
import type { z } from "zod";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { ENDED_STATES } from "../../../registry/lifecycle/lifecycle.ts";
import { bytesByRun, diskUsage, diskUsageSoon } from "../../link/disk.ts";
import { fetchRuns, type RunsWanted } from "../../link/fetch_runs.ts";
import {
  chooseRunsToPrune,
  type Chosen,
  type PrunableRun,
  type RetentionPolicy,
} from "../../../registry/retention/retention.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { exitOfError } from "../../link/exit.ts";
import {
  ageValue,
  bytesValue,
  connectionFlags,
  connectionOptions,
  outputOption,
  repeated,
  wholeNumber,
} from "../../verb/flags.ts";
import { ago, bytes } from "../../../base/text/format.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Pruning } from "../../../registry/contract.ts";
import { table } from "../../text/table.ts";
import { escapeControl, stateStyle } from "../../text/text.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";

interface Candidate extends PrunableRun {
  name: string;
  /** Null: not known in time. */
  size: number | null;
}

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Removes ended runs for good, with their files and telemetry, by count, age or size; the trash before all others. " +
        "Live runs are never removed. At least one limit, or --trash, must be given; --dry-run shows what would go.",
    )
    .option("--trash", "empty the trash; with --older-than only of what was deleted so long ago")
    .option("--keep-last <n>", "always keep the newest n ended runs", wholeNumber())
    .option(
      "--older-than <duration>",
      "delete runs that ended more than this long ago, such as 30d",
      ageValue,
    )
    .option(
      "--max-size <size>",
      "delete the oldest runs until all runs use no more disk space than this, such as 200G",
      bytesValue,
    )
    .option("-t, --tag <tag>", "only runs with this tag (repeatable)", repeated)
    .option("-n, --name <text>", "only runs whose name contains this")
    .option("--dry-run", "show what would be deleted; delete nothing");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic prune --older-than 30d --dry-run", "show what a limit of 30 days would delete"],
          ["mosaic prune --trash", "empty the trash"],
          ["mosaic prune --keep-last 100", "keep the newest 100 ended runs"],
          ["mosaic prune --max-size 500G --tag sweep", "limit the disk space of a sweep"],
        ],
        exits: { 0: "done, or nothing to delete", 2: "wrong arguments, or no limit given" },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      const trash = flags["trash"] === true;
      if (trash && (flags["keepLast"] !== undefined || flags["maxSize"] !== undefined)) {
        throw new MosaicError(
          "invalid_argument",
          "--trash goes with --older-than, --tag and --name only",
        );
      }
      const policy: RetentionPolicy = trash ? { keepDeletedMs: Number(flags["olderThan"] ?? 0) } : {
        ...(flags["keepLast"] === undefined ? {} : { keepLast: Number(flags["keepLast"]) }),
        ...(flags["olderThan"] === undefined ? {} : { olderThanMs: Number(flags["olderThan"]) }),
        ...(flags["maxSize"] === undefined ? {} : { maxBytes: Number(flags["maxSize"]) }),
      };
      if (Object.keys(policy).length === 0) {
        throw new MosaicError(
          "invalid_argument",
          "no limit given: use --keep-last, --older-than, --max-size or --trash",
          {
            hint: "With --dry-run nothing is deleted.",
          },
        );
      }
      using link = await Link.open(context, connectionFlags(flags));
      const chosen = chooseRunsToPrune(
        await candidates(link, flags, context),
        policy,
        context.now(),
      );
      const dryRun = flags["dryRun"] === true;
      let freed = 0;
      const done: Chosen<Candidate>[] = [];
      for (const choice of chosen) {
        try {
          if (!dryRun) {
            const run = { run: choice.run.runId, forever: true };
            freed += Number((await link.unary(link.methods.deleteRun, run)).freedBytes);
          }
          done.push(choice);
        } catch (error) {
          // Another client may have retried or deleted the run in the meantime.
          if (!(error instanceof MosaicError)) throw error;
          context.err.write(`mosaic: ${choice.run.runId}: ${escapeControl(messageOf(error))}\n`);
          result.code ||= exitOfError(error);
        }
      }
      context.out.write(
        flags["output"] === "json"
          ? `${JSON.stringify(pruneJson(done, dryRun, freed), null, 2)}\n`
          : pruneText(done, dryRun, freed, context),
      );
    });
}

async function candidates(
  link: Link,
  flags: Record<string, unknown>,
  context: Context,
): Promise<Candidate[]> {
  const bySize = flags["maxSize"] !== undefined;
  const wanted: RunsWanted = {
    // Live runs are never chosen, but their size counts towards --max-size.
    states: bySize ? [] : ENDED_STATES,
    tags: (flags["tag"] as string[] | undefined) ?? [],
    nameContains: String(flags["name"] ?? ""),
  };
  const runs = [
    ...bySize || flags["trash"] === true ? await fetchRuns(link, { ...wanted, deleted: true }) : [],
    ...flags["trash"] === true ? [] : await fetchRuns(link, wanted),
  ];
  const sizes = !bySize ? await sizesToShow(link, context) : bytesByRun(await diskUsage(link));
  const sizeOf = (runId: string) => sizes === undefined ? null : sizes.get(runId) ?? 0;
  return runs.map((run) => ({
    runId: run.run_id,
    name: run.name,
    state: run.state,
    createdAt: Date.parse(run.submitted_at),
    finishedAt: run.finished_at === null ? null : Date.parse(run.finished_at),
    deletedAt: run.deleted_at === null ? null : Date.parse(run.deleted_at),
    damaged: run.damaged,
    bytes: sizeOf(run.run_id) ?? 0,
    size: sizeOf(run.run_id),
  }));
}

/** Count and age need no sizes: on failure, prints a warning and omits them. */
async function sizesToShow(link: Link, context: Context): Promise<Map<string, number> | undefined> {
  try {
    return bytesByRun(await diskUsageSoon(link));
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    context.err.write(
      `mosaic: cannot get the sizes of runs, not shown: ${escapeControl(messageOf(error))}\n`,
    );
    return undefined;
  }
}

function pruneJson(
  done: readonly Chosen<Candidate>[],
  dryRun: boolean,
  freed: number,
): z.infer<typeof Pruning> {
  return {
    dry_run: dryRun,
    freed_bytes: freed,
    runs: done.map(({ run: { runId, name, state, size }, because }) => ({
      run_id: runId,
      name,
      state,
      bytes: size,
      because,
    })),
  };
}

function pruneText(
  done: Chosen<Candidate>[],
  dryRun: boolean,
  freed: number,
  context: Context,
): string {
  if (done.length === 0) return "Nothing to delete.\n";
  const { terminal } = context;
  const rows = table<Chosen<Candidate>>(
    [
      { name: "run", text: ({ run }) => run.runId },
      { name: "name", shrinkTo: 8, text: ({ run }) => run.name },
      {
        name: "state",
        text: ({ run }) => stateWord(run.state),
        style: ({ run }) => stateStyle(run.state),
      },
      { name: "ended", align: "right", text: ({ run }) => ago(run.finishedAt, context.now()) },
      {
        name: "size",
        align: "right",
        text: ({ run }) => run.size === null ? "?" : bytes(run.size),
      },
      { name: "because of", text: ({ because }) => because },
    ],
    done,
    { width: terminal.isTty ? terminal.width : undefined, color: terminal.color },
  );
  const runs = done.length === 1 ? "run" : "runs";
  const size = done.some(({ run }) => run.size === null)
    ? ""
    : `, with ${bytes(done.reduce((sum, { run }) => sum + run.bytes, 0))} of files and telemetry`;
  const end = dryRun ? `would be deleted${size}` : `deleted, ${bytes(freed)} freed`;
  return `${rows}\n${done.length} ${runs} ${end}\n`;
}

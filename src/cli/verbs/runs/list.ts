/** `mosaic list` */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import {
  commaSeparated,
  connectionFlags,
  connectionOptions,
  type Format,
  FORMATS,
  momentValue,
  outputOption,
  repeated,
  wholeNumber,
} from "../../verb/flags.ts";
import { shortIds } from "../../../base/text/format.ts";
import { interruptible } from "../../link/interrupt.ts";
import { fetchRuns, type RunsWanted } from "../../link/fetch_runs.ts";
import { LIVE_STATES } from "../../../runs/fields/lifecycle_states.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { pause } from "../../../wire/http/waiting.ts";
import { Link } from "../../link/daemon_link.ts";
import { chooseColumns, queried, valueColumn } from "../../../runs/fields/run_columns.ts";
import {
  DEFAULT_COLUMNS,
  type ListColumn,
  listColumns,
  WIDE_COLUMNS,
} from "../../text/runs_table.ts";
import { columnFor, GROUP_BY_HELP, GROUP_BY_OPTION } from "../../verb/group_by.ts";
import { sortOf } from "../../../runs/query/order.ts";
import { groupByOf } from "../../../runs/run_groups.ts";
import { renderGroups } from "../../verb/group_table.ts";
import { parseStates } from "../../text/states.ts";
import { csv } from "../../../base/text/csv_text.ts";
import { table } from "../../text/table.ts";
import { escapeControl, widthOf } from "../../text/text.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Lists runs, newest first; on a terminal without further options the live ones and the newest 30.",
    )
    .option(
      "-s, --state <states>",
      "only these states (comma-separated), or sets: live, ended, queued, running, succeeded, failed, canceled",
    )
    .option("-n, --name <text>", "only runs whose name contains this")
    .option("-t, --tag <tag>", "only runs with this tag (repeatable)", repeated)
    .option("--since <when>", "only runs submitted since this long ago (2h) or this time")
    .option("--mine", "only your runs: those of your token, or of your user")
    .option(
      "--within <run>",
      "the runs within this run: trials, jobs and tracker runs of its program",
    )
    .option("--all-hosts", 'the runs of this host and of all of "mosaic host list"')
    .option("--trash", "deleted runs, which mosaic restore brings back")
    .option("-l, --limit <n>", "maximum number of runs", wholeNumber(1))
    .option("-a, --all", "all runs, also on a terminal")
    .option("--where <filter>", "only matching runs, such as 'lr<1e-3 and env_id=CartPole-v1'")
    .option("--sort <column>", "sort by this column; -column: descending")
    .option(
      "-c, --columns <names>",
      "columns to print (comma-separated); also param.NAME, metric.NAME, metric.NAME:max",
    )
    .option(GROUP_BY_OPTION, `one row a group, with mean ± standard deviation: ${GROUP_BY_HELP}`)
    .option("-q, --quiet", "print run ids only")
    .option("-w, --watch [seconds]", "refresh every n seconds (default: 2)", wholeNumber(1));
  connectionOptions(outputOption(command, FORMATS))
    .addHelpText(
      "after",
      manual({
        details: `Columns: ${
          listColumns({
            now: 0,
            shortId: (id) => id,
          }).map((c) => c.name).join(", ")
        }; ` +
          "param.NAME: a parameter; metric.NAME: a metric's last value; " +
          "metric.NAME:AGGREGATE: its min, max, mean, points, min_step or max_step.\n\n" +
          "Filter: COLUMN OPERATOR VALUE with = != < <= > >= ~ (contains; * is any text), like and ilike (% is any text, _ one character), COLUMN in (VALUE, …), joined by " +
          "and, or, not and parentheses. A name that is no column is a parameter. Texts may be quoted, names by backticks.",
        examples: [
          ["mosaic list --state live", "running and queued runs"],
          [
            "mosaic list -s failed --since 1d -c run,name,reason",
            "failures of the last day, with reasons",
          ],
          [
            "mosaic list -o json | jq -r '.[] | select(.exit_code == 3) | .run_id'",
            "ids for a script",
          ],
          ["mosaic list -c name,param.lr,metric.loss:min --where 'lr<1e-3'", "a search"],
          ["mosaic list --group-by name -c steps,metric.loss", "seeds as one row"],
          ["mosaic list --watch", "a live table; mosaic top has a full-screen one"],
        ],
        exits: { 130: "--watch was interrupted by Ctrl-C" },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      const watch = flags["watch"];
      using link = await Link.open(context, connectionFlags(flags), {
        retryMs: watch ? 60_000 : 0,
      });
      if (watch === undefined) {
        context.out.write(await listed(link, context, flags));
        return;
      }
      const seconds = watch === true ? 2 : Number(watch);
      result.code = await interruptible(context, "", async (signal) => {
        while (!signal.aborted) {
          const text = await listed(link, context, flags, signal);
          // On a terminal, redraw from the upper left corner; elsewhere append.
          if (context.terminal.isTty) context.out.move("screen");
          context.out.write(text);
          await pause(seconds * 1000, signal);
        }
        return 0;
      });
    });
}

/** Newest runs on a terminal, besides the live ones, unless options say otherwise. */
const NEWEST = 30;
const NARROWING = [
  "state",
  "name",
  "tag",
  "since",
  "within",
  "trash",
  "mine",
  "limit",
  "where",
  "sort",
  "groupBy",
  "all",
  "quiet",
];

/** What a person at a terminal wants to see first. */
const isFirstLook = (flags: Record<string, unknown>, { terminal }: Context) =>
  terminal.isTty && ["table", "wide"].includes(String(flags["output"])) &&
  NARROWING.every((name) => flags[name] === undefined);

/** The live runs and the newest, newest first; says if there are others. */
async function firstLook(
  link: Link,
  wanted: RunsWanted,
  context: Context,
  signal?: AbortSignal,
): Promise<RunJson[]> {
  const newest = await fetchRuns(link, { ...wanted, limit: NEWEST + 1 }, signal);
  if (newest.length <= NEWEST) return newest;
  const live = await fetchRuns(link, { ...wanted, states: LIVE_STATES }, signal);
  const shown = newest.slice(0, NEWEST);
  const ids = new Set(shown.map(({ run_id }) => run_id));
  context.err.write(`mosaic: the live and the newest ${NEWEST} runs; --all lists every run\n`);
  return [...shown, ...live.filter(({ run_id }) => !ids.has(run_id))];
}

/** The runs, and their output. */
async function listed(
  link: Link,
  context: Context,
  flags: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<string> {
  const by = typeof flags["groupBy"] === "string" ? groupByOf(flags["groupBy"]) : undefined;
  const needed = by === undefined ? undefined : columnFor(by);
  const wanted: RunsWanted = {
    states: typeof flags["state"] === "string" ? parseStates(flags["state"]) : [],
    nameContains: String(flags["name"] ?? ""),
    within: String(flags["within"] ?? ""),
    deleted: flags["trash"] === true,
    mine: flags["mine"] === true,
    tags: (flags["tag"] as string[] | undefined) ?? [],
    submittedSince: await sinceOf(flags, context.now()),
    where: String(flags["where"] ?? ""),
    sort: sortByDaemon(flags["sort"]),
    columns: queried([
      ...(typeof flags["columns"] === "string" ? commaSeparated(flags["columns"]) : []),
      ...(needed === undefined ? [] : [needed]),
      ...(by !== undefined && typeof flags["sort"] === "string"
        ? [sortOf(flags["sort"]).column]
        : []),
    ]),
    limit: Number(flags["limit"] ?? Infinity),
  };
  const runs = isFirstLook(flags, context)
    ? await firstLook(link, wanted, context, signal)
    : await fetchRuns(link, wanted, signal);
  if (flags["watch"] === undefined) await warnOfUnknown(link, context, runs, flags);
  return by === undefined ? render(runs, flags, context) : renderGroups(runs, by, flags, context);
}

/** Warns of names that no run has, if a filter matches no run or a column is empty. */
async function warnOfUnknown(
  link: Link,
  context: Context,
  runs: readonly RunJson[],
  flags: Record<string, unknown>,
): Promise<void> {
  const where = runs.length === 0 ? String(flags["where"] ?? "") : "";
  const chosen = typeof flags["columns"] === "string" ? commaSeparated(flags["columns"]) : [];
  const empty = queried(chosen).filter((name) =>
    runs.length > 0 && runs.every(({ values }) => values?.[name] == null)
  );
  const sort = typeof flags["sort"] === "string" ? queried([sortOf(flags["sort"]).column]) : [];
  if (where === "" && empty.length === 0 && sort.length === 0) return;
  const { unknownColumns } = await import("../../text/unknown_columns.ts");
  const known = await link.unary(link.methods.listColumns, {});
  for (const text of unknownColumns(where, [...empty, ...sort], known)) {
    context.err.write(`mosaic: ${escapeControl(text)}\n`);
  }
}

async function sinceOf(
  flags: Record<string, unknown>,
  now: number,
): Promise<Timestamp | undefined> {
  if (flags["since"] === undefined) return undefined;
  const { timestampOfMs } = await import("../../../wire/time.ts");
  return timestampOfMs(momentValue(String(flags["since"]), now));
}

/** For the daemon, which sorts: a column by its full name. */
function sortByDaemon(flag: unknown): string {
  const { column, descending } = sortOf(typeof flag === "string" ? flag : "");
  if (column === "" || queried([column]).length > 0) return `${descending ? "-" : ""}${column}`;
  const [{ name }] = chooseColumns([column], listColumns({ now: 0, shortId: (id) => id })) as [
    ListColumn,
  ];
  return `${descending ? "-" : ""}${name === "run" ? "run_id" : name}`;
}

function render(found: RunJson[], flags: Record<string, unknown>, context: Context): string {
  return renderRuns(found, {
    format: flags["output"] as Format,
    quiet: flags["quiet"] === true,
    trash: flags["trash"] === true,
    columns: typeof flags["columns"] === "string"
      ? commaSeparated(flags["columns"])
      : flags["trash"] === true && flags["output"] === "table"
      ? [...TRASH_COLUMNS]
      : undefined,
  }, context);
}

const TRASH_COLUMNS = ["run", "name", "state", "deleted", "steps", "reward", "note"] as const;

/** Columns that a narrow terminal does without, the first of them first. */
const DISPENSABLE = ["rate", "gpus", "elapsed", "steps", "note"];

/** As many of the columns as fit, if those that may be narrowed are. */
function fitting(columns: ListColumn[], runs: readonly RunJson[], width: number): ListColumn[] {
  let kept = columns;
  for (const name of DISPENSABLE) {
    const lines = table(kept, runs, { width, color: false }).split("\n");
    if (lines.every((line) => widthOf(line) <= width)) break;
    kept = kept.filter((column) => column.name !== name);
  }
  return kept;
}

export interface ListRendering {
  format: Format;
  quiet: boolean;
  columns: string[] | undefined;
  /** They are in the trash. */
  trash: boolean;
}

function renderRuns(
  runs: RunJson[],
  { format, quiet, columns: chosen, trash }: ListRendering,
  { now, terminal }: Pick<Context, "now" | "terminal">,
): string {
  const ids = shortIds(runs.map((r) => r.run_id));
  const all: ListColumn[] = [
    ...listColumns({ now: now(), shortId: (id) => ids.get(id)! }),
    ...queried(chosen ?? []).map(valueColumn),
  ];
  const columns = (standard: readonly string[]): ListColumn[] =>
    chooseColumns(chosen ?? standard, all);
  const shown = columns(format === "wide" || format === "csv" ? WIDE_COLUMNS : DEFAULT_COLUMNS);
  if (quiet) return runs.map((r) => `${r.run_id}\n`).join("");
  switch (format) {
    case "json":
      return `${JSON.stringify(runs, null, 2)}\n`;
    case "jsonl":
      return runs.map((r) => `${JSON.stringify(r)}\n`).join("");
    case "csv":
      return csv(shown.map((c) => c.name), runs.map((r) => shown.map((c) => c.value(r))));
    default:
      if (runs.length === 0) return trash ? "The trash is empty.\n" : "No runs.\n";
      if (!terminal.isTty || format === "wide") {
        return table(shown, runs, { width: undefined, color: terminal.color });
      }
      return table(
        chosen === undefined ? fitting(shown, runs, terminal.width) : shown,
        runs,
        terminal,
      );
  }
}

/** `mosaic du` */
import type { Command } from "commander";
import type { z } from "zod";
import { fetchRuns } from "../../link/fetch_runs.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { diskUsage } from "../../link/disk.ts";
import { connectionFlags, connectionOptions, outputOption, wholeNumber } from "../../verb/flags.ts";
import { bytes, shortIds } from "../../../base/text/format.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Usage } from "../../../registry/contract.ts";
import { csv } from "../../../base/text/csv_text.ts";
import { type Column, table } from "../../text/table.ts";
import { stateStyle } from "../../text/text.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";

/** Runs in a table by default. */
const SHOWN = 20;

type UsageJson = z.infer<typeof Usage>;
type RunUsage = UsageJson["runs"][number];

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows the disk space that runs use, largest first, and the total per directory. All runs share one telemetry " +
        "database: a run's share of it is an estimate.",
    )
    .option(
      "-l, --limit <n>",
      `maximum number of runs (default for a table: ${SHOWN})`,
      wholeNumber(1),
    );
  connectionOptions(outputOption(command, ["table", "json", "csv"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic du", "the largest runs, and the total"],
          ["mosaic du -o json | jq .total_bytes", "for a script"],
          ["mosaic prune --max-size 200G --dry-run", "which runs a limit would delete"],
        ],
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const usage = await usageOf(link);
      const { color } = context.terminal;
      const limit = flags["limit"] as number | undefined;
      switch (flags["output"]) {
        case "json":
          context.out.write(
            `${JSON.stringify({ ...usage, runs: usage.runs.slice(0, limit) }, null, 2)}\n`,
          );
          break;
        case "csv":
          context.out.write(
            csv(
              ["run", "name", "state", "bytes", "telemetry_bytes", "deleted_at"],
              usage.runs.slice(0, limit).map((r) => Object.values(r)),
            ),
          );
          break;
        default:
          context.out.write(usageText(usage, { limit: limit ?? SHOWN, color }));
      }
    });
}

async function usageOf(link: Link): Promise<UsageJson> {
  const found = await diskUsage(link);
  const known = new Map<string, RunJson>();
  for (const deleted of [false, true]) {
    for (const run of await fetchRuns(link, { deleted })) known.set(run.run_id, run);
  }
  const runs = [...new Set([...Object.keys(found.runs), ...Object.keys(found.telemetry)])].map((
    run_id,
  ) => ({
    run_id,
    name: known.get(run_id)?.name ?? null,
    state: known.get(run_id)?.state ?? null,
    bytes: Number(found.runs[run_id] ?? 0n) + Number(found.telemetry[run_id] ?? 0n),
    telemetry_bytes: Number(found.telemetry[run_id] ?? 0n),
    deleted_at: known.get(run_id)?.deleted_at ?? null,
  }));
  const directory = (name: string) => Number(found.directories[name] ?? 0n);
  const directories = {
    runs: directory("runs"),
    evals: directory("evals"),
    custom_scripts: directory("custom_scripts"),
  };
  const telemetry_bytes = Number(found.telemetryBytes);
  const registry_bytes = Number(found.registryBytes);
  const total_bytes = Object.values(directories).reduce(
    (a, b) => a + b,
    telemetry_bytes + registry_bytes,
  );
  return {
    runs: runs.sort((a, b) => b.bytes - a.bytes || (a.run_id < b.run_id ? 1 : -1)),
    directories,
    telemetry_bytes,
    registry_bytes,
    trash_bytes: runs.reduce(
      (sum, { bytes, deleted_at }) => deleted_at === null ? sum : sum + bytes,
      0,
    ),
    total_bytes,
  };
}

function usageText(usage: UsageJson, { limit, color }: { limit: number; color: boolean }): string {
  const shown = usage.runs.slice(0, limit);
  const ids = shortIds(shown.map((r) => r.run_id));
  const columns: Column<RunUsage>[] = [
    { name: "size", align: "right", text: (r) => bytes(r.bytes) },
    { name: "telemetry", align: "right", text: (r) => bytes(r.telemetry_bytes) },
    { name: "run", text: (r) => ids.get(r.run_id)! },
    {
      name: "state",
      text: (r) => r.deleted_at !== null ? "in the trash" : stateWord(r.state ?? "not on record"),
      style: (r) => stateStyle(r.state ?? ""),
    },
    { name: "name", text: (r) => r.name ?? "" },
  ];
  const more = usage.runs.length - shown.length;
  const parts: [string, number][] = [
    ...Object.entries(usage.directories).map(([name, n]): [string, number] => [`${name}/`, n]),
    ["telemetry", usage.telemetry_bytes],
    ["registry", usage.registry_bytes],
    ["all", usage.total_bytes],
    ...usage.trash_bytes === 0
      ? []
      : [["of it in the trash", usage.trash_bytes] satisfies [string, number]],
  ];
  const totals = table<[string, number]>(
    [{ name: "size", align: "right", text: ([, n]) => bytes(n) }, {
      name: "what",
      text: ([name]) => name,
    }],
    parts,
    { width: undefined, color, heading: false },
  );
  const list = shown.length === 0
    ? "Nothing of runs.\n"
    : table(columns, shown, { width: undefined, color });
  return `${list}${more > 0 ? `and ${more} smaller ones (--limit)\n` : ""}\n${totals}`;
}

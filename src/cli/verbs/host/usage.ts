/** `mosaic usage` */
import { type Command, Option } from "commander";
import type { z } from "zod";
import { csv } from "../../../base/text/csv_text.ts";
import { bytes, shortIds } from "../../../base/text/format.ts";
import type { GpuUse } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import type { RunGpuUse, SweepGpuUse, UserGpuUse } from "../../../registry/contract.ts";
import { diskUsage } from "../../link/disk.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Context } from "../../link/context.ts";
import { type Column, table } from "../../text/table.ts";
import { ageValue, connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";

type User = z.infer<typeof UserGpuUse>;
type Sweep = z.infer<typeof SweepGpuUse>;
type Run = z.infer<typeof RunGpuUse>;
type Time = Pick<User, "gpu_hours" | "measured_hours" | "idle_hours" | "idle_share">;

const TIME = ["gpu_hours", "measured_hours", "idle_hours", "idle_share"] as const;

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows GPU hours, from the claim of each card to its release, by who submitted the runs, and the share in which the " +
        "cards did nothing (a utilisation below 5 %, where the driver tells it). Deleted runs count, for 400 days; of one " +
        "that was deleted for good, the sweep is not known. By user also the disk space of the runs that are there now, " +
        "those in the trash included.",
    )
    .addOption(
      oneOf(new Option("--by <what>", "user, sweep or run"), ["user", "sweep", "run"]).default(
        "user",
      ),
    )
    .option("--since <duration>", "of the days since this long ago (UTC), such as 30d", ageValue);
  connectionOptions(outputOption(command, ["table", "json", "csv"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic usage --since 7d", "GPU hours of the last week"],
          ["mosaic usage --by sweep", "of each sweep, and of the runs without one"],
          ["mosaic usage --by run -o csv", "of each run, for a spreadsheet"],
        ],
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const age = flags["since"] as number | undefined;
      const at = age === undefined ? undefined : context.now() - age;
      const since = at === undefined ? {} : { since: { seconds: BigInt(Math.trunc(at / 1000)) } };
      const { runs } = await link.unary(link.methods.getGpuUse, since);
      const output = flags["output"];
      if (flags["by"] === "run") {
        const uses = runs.map(runUse);
        context.out.write(
          output === "json"
            ? `${JSON.stringify(uses, null, 2)}\n`
            : output === "csv"
            ? csv(["run", "name", "user", ...TIME], uses.map((use) => Object.values(use)))
            : shown(uses, runColumns(uses), context),
        );
        return;
      }
      if (flags["by"] === "sweep") {
        const uses = sweepsOf(runs);
        context.out.write(
          output === "json"
            ? `${JSON.stringify(uses, null, 2)}\n`
            : output === "csv"
            ? csv(["sweep", "runs", ...TIME], uses.map((use) => Object.values(use)))
            : shown(uses, SWEEP_COLUMNS, context),
        );
        return;
      }
      const { owners, maxPerOwner } = await diskUsage(link);
      const uses = usersOf(runs, owners, maxPerOwner);
      context.out.write(
        output === "json" ? `${JSON.stringify(uses, null, 2)}\n` : output === "csv"
          ? csv(
            ["user", "runs", ...TIME, "disk_bytes", "disk_limit_bytes"],
            uses.map((use) => Object.values(use)),
          )
          : shown(uses, USER_COLUMNS, context),
      );
    });
}

type Seconds = Pick<GpuUse, "gpuSeconds" | "measuredSeconds" | "idleSeconds">;

function timeOf({ gpuSeconds, measuredSeconds, idleSeconds }: Seconds): Time {
  return {
    gpu_hours: gpuSeconds / 3600,
    measured_hours: measuredSeconds / 3600,
    idle_hours: idleSeconds / 3600,
    idle_share: measuredSeconds === 0 ? null : idleSeconds / measuredSeconds,
  };
}

function runUse(use: GpuUse): Run {
  return { run_id: use.runId, name: use.runName, user: use.submitter, ...timeOf(use) };
}

/** Most hours first. */
function sweepsOf(runs: readonly GpuUse[]): Sweep[] {
  return [...Map.groupBy(runs, ({ sweep }) => sweep)].map(([sweep, its]) => ({
    sweep,
    runs: its.length,
    ...timeOf(sumOf(its)),
  })).sort((a, b) => b.gpu_hours - a.gpu_hours);
}

function sumOf(runs: readonly Seconds[]): Seconds {
  const sum = (field: keyof Seconds) => runs.reduce((total, use) => total + use[field], 0);
  return {
    gpuSeconds: sum("gpuSeconds"),
    measuredSeconds: sum("measuredSeconds"),
    idleSeconds: sum("idleSeconds"),
  };
}

/** Most hours first, then most bytes. @param disk bytes of each user's runs */
export function usersOf(
  runs: readonly GpuUse[],
  disk: Readonly<Record<string, bigint>> = {},
  limit?: bigint,
): User[] {
  const byUser = Map.groupBy(runs, ({ submitter }) => submitter);
  for (const user of Object.keys(disk)) if (!byUser.has(user)) byUser.set(user, []);
  return [...byUser].map(([user, its]) => ({
    user,
    runs: its.length,
    ...timeOf(sumOf(its)),
    disk_bytes: Number(disk[user] ?? 0n),
    disk_limit_bytes: limit === undefined ? null : Number(limit),
  })).sort((a, b) => b.gpu_hours - a.gpu_hours || b.disk_bytes - a.disk_bytes);
}

const hours = (value: number) => value.toFixed(value < 9.95 ? 2 : 1);

const TIME_COLUMNS: Column<Time>[] = [
  { name: "gpu_hours", align: "right", text: ({ gpu_hours }) => hours(gpu_hours) },
  {
    name: "idle",
    align: "right",
    text: ({ idle_share }) => idle_share === null ? "" : `${Math.round(idle_share * 100)}%`,
    style: ({ idle_share }) => (idle_share ?? 0) > 0.5 ? "yellow" : undefined,
  },
];

const USER_COLUMNS: Column<User>[] = [
  { name: "user", text: ({ user }) => user },
  { name: "runs", align: "right", text: ({ runs }) => String(runs) },
  ...TIME_COLUMNS,
  {
    name: "disk",
    align: "right",
    text: ({ disk_bytes, disk_limit_bytes: most }) =>
      most === null ? bytes(disk_bytes) : `${bytes(disk_bytes)} of ${bytes(most)}`,
    style: ({ disk_bytes, disk_limit_bytes: most }) =>
      disk_bytes > (most ?? Infinity) ? "yellow" : undefined,
  },
];

const SWEEP_COLUMNS: Column<Sweep>[] = [
  { name: "sweep", text: ({ sweep }) => sweep || "(none)" },
  { name: "runs", align: "right", text: ({ runs }) => String(runs) },
  ...TIME_COLUMNS,
];

function runColumns(uses: readonly Run[]): Column<Run>[] {
  const ids = shortIds(uses.map(({ run_id }) => run_id));
  return [
    { name: "run", text: ({ run_id }) => ids.get(run_id)! },
    { name: "name", shrinkTo: 10, text: ({ name }) => name },
    { name: "user", text: ({ user }) => user },
    ...TIME_COLUMNS,
  ];
}

function shown<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { terminal }: Context,
): string {
  const { color, width } = terminal;
  return rows.length === 0 ? "No run has held a GPU.\n" : table(columns, rows, { color, width });
}

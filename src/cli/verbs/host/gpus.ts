/** `mosaic gpus` */
import type { Command } from "commander";
import { bytes, shortIds } from "../../../base/text/format.ts";
import { Link } from "../../link/daemon_link.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { escapeControl } from "../../text/text.ts";
import { manual } from "../../verb/verb_parser.ts";
import { gpuShareText } from "../../../runs/fields/run_texts.ts";
import { type HostJson, hostJsonOf } from "../../../runs/fields/host_json.ts";
import { type Column, table } from "../../text/table.ts";

type GpuJson = HostJson["gpus"][number];

export function define(command: Command, context: Context): void {
  command.description(
    "Shows the GPUs that the daemon gives to runs: memory and utilisation, the run that has each, and what other processes " +
      "use of it. The daemon asks the driver anew.",
  );
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic gpus", "the host's cards, their runs, and who else uses them"],
          [
            "mosaic gpus -o json | jq '.[]|select(.run_id==null and .shares==[]).slot'",
            "slots that no run has or shares",
          ],
        ],
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const { gpus, gpu_problem } = hostJsonOf(
        await link.unary(link.methods.getHost, { freshGpus: true }),
      );
      if (gpu_problem !== "") context.err.write(`mosaic: ${escapeControl(gpu_problem)}\n`);
      if (flags["output"] === "json") {
        context.out.write(`${JSON.stringify(gpus, null, 2)}\n`);
        return;
      }
      const { color, width } = context.terminal;
      context.out.write(
        gpus.length === 0 ? "The daemon has no GPU slots.\n" : gpuTable(gpus, { color, width }),
      );
    });
}

const size = (mb: number) => bytes(mb * (1 << 20));
const figure = (value: number | null, unit: string) =>
  value === null ? "" : `${Math.round(value)}${unit}`;

export function gpuTable(
  gpus: readonly GpuJson[],
  options: { color: boolean; width: number | undefined },
): string {
  const ids = shortIds(
    gpus.flatMap((
      { run_id, shares },
    ) => [...run_id === null ? [] : [run_id], ...shares.map((its) => its.run_id)]),
  );
  const holders = ({ run_id, shares }: GpuJson) =>
    run_id !== null
      ? ids.get(run_id)!
      : shares.map((share) => `${ids.get(share.run_id)!} (${gpuShareText(share)})`).join("; ") ||
        "free";
  const columns: Column<GpuJson>[] = [
    { name: "slot", align: "right", text: ({ slot }) => String(slot) },
    { name: "gpu", shrinkTo: 10, text: ({ name, uuid }) => name || uuid },
    {
      name: "memory",
      align: "right",
      text: ({ used_mb, memory_mb }) =>
        [used_mb, memory_mb].map((mb) => mb === null ? "?" : size(mb)).join(" of ").replace(
          /^\? of \?$/,
          "",
        ),
    },
    { name: "use", align: "right", text: ({ percent }) => figure(percent, "%") },
    { name: "power", align: "right", text: ({ watts }) => figure(watts, " W") },
    { name: "temp", align: "right", text: ({ celsius }) => figure(celsius, " °C") },
    {
      name: "run",
      text: (gpu) => `${holders(gpu)}${gpu.lost ? " (card lost)" : ""}`,
      style: (gpu) => gpu.lost ? "red" : holders(gpu) === "free" ? "dim" : undefined,
    },
    { name: "link", text: ({ link }) => link },
    { name: "others", text: ({ others }) => others, style: () => "yellow" },
    { name: "health", text: ({ health }) => health, style: () => "red" },
  ];
  // What no card has takes no room.
  const shown = columns.filter(({ name, text }) =>
    (name !== "link" && name !== "health") || gpus.some((gpu) => text(gpu) !== "")
  );
  return table(shown, gpus, options);
}

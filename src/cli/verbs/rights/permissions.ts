/** `mosaic permissions` */
import { Argument, type Command, Option } from "commander";
import { flagsOf } from "../../../permissions/permissions.ts";
import { planFor, PLANNED_PARTS, type PlannedPart } from "../../../permissions/part_plan.ts";
import { realWorld } from "../../../permissions/world.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints the Deno permissions that a daemon or a proxy needs with these arguments and in this environment. Starts " +
        "nothing. All other commands use one fixed permission set (docs/reference/permissions.md).",
    )
    .addArgument(oneOf(new Argument("<part>", "the process"), PLANNED_PARTS))
    .argument("[arguments...]", "arguments of the daemon or proxy")
    .addOption(
      oneOf(new Option("-o, --output <format>", "output format"), ["flags", "json"]).default(
        "flags",
      ),
    )
    .passThroughOptions()
    .addHelpText(
      "after",
      manual({
        details: "Options of this command must come before <part>.",
        environment: [[
          "MOSAIC_ALLOW",
          "additional flags, such as --allow-net=hooks.example.com:443",
        ]],
        examples: [
          ["mosaic permissions daemon --listen unix:/run/mosaic.sock", "one flag per line"],
          [
            "mosaic permissions -o json proxy --run-id R -- python train.py",
            "grouped by kind, as JSON",
          ],
          [
            "deno run $(mosaic permissions daemon) src/main.ts daemon",
            "run from source with minimal permissions",
          ],
        ],
        exits: {
          0: "printed",
          2: "neither daemon nor proxy, an option without a value, or an invalid address",
        },
      }),
    )
    .action(async (part: PlannedPart, args: string[], options: { output: string }) => {
      const planned = await planFor(part, args, realWorld());
      context.out.write(
        options.output === "json"
          ? `${JSON.stringify(planned)}\n`
          : flagsOf(planned).map((flag) => `${flag}\n`).join(""),
      );
    });
}

/** `mosaic permissions` */
import { Argument, type Command, Option } from "commander";
import { flagsOf } from "../../permissions/permissions.ts";
import { planFor, PLANNED_PARTS, type PlannedPart } from "../../permissions/part_plan.ts";
import { realWorld } from "../../permissions/world.ts";
import { manual, oneOf } from "../command.ts";
import type { Context } from "../context.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints the runtime permissions that a daemon or a proxy needs with exactly these arguments, in this environment: " +
        "what it is started with where permissions are held to the least. Nothing is started. The other commands need no " +
        "plan: one set for clients does (docs/permissions.md).",
    )
    .addArgument(oneOf(new Argument("<part>", "whose permissions"), PLANNED_PARTS))
    .argument("[arguments...]", "of the daemon or proxy")
    .addOption(oneOf(new Option("-o, --output <format>", "how to print"), ["flags", "json"]).default("flags"))
    .passThroughOptions()
    .addHelpText(
      "after",
      manual({
        details: "Options of this command come before the part that is asked about.",
        environment: [["MOSAIC_ALLOW", "flags granted beyond the plan, such as --allow-net=hooks.example.com:443"]],
        examples: [
          ["mosaic permissions daemon --listen unix:/run/mosaic.sock", "one flag a line"],
          ["mosaic permissions -o json proxy --run-id R -- python train.py", "by kind"],
          ["deno run $(mosaic permissions daemon) src/main.ts daemon", "from source, held to the least"],
        ],
        exits: { 0: "printed", 2: "not daemon or proxy, an option without its value, an address that is none" },
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

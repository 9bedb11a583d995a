/**
 * Run by the portable executable before a daemon or a proxy: prints the permission flags for its
 * command line, one per line.
 *
 * Prints none for an invalid command line: the program then starts with the client's permissions
 * and reports the error.
 */
import { MosaicError } from "../base/errors.ts";
import { EXTRA_VARIABLE, extraPermissions, flagsOf } from "./permissions.ts";
import { isPlanned, planFor } from "./part_plan.ts";
import { realWorld } from "./world.ts";

const world = realWorld();
try {
  // The program itself never reads this variable, so an error must be reported here.
  extraPermissions(world.env(EXTRA_VARIABLE));
} catch (error) {
  if (!(error instanceof MosaicError)) throw error;
  console.error(`mosaic: ${error.message}\n  ${error.hint}`);
  Deno.exit(2);
}
const [part = "", ...args] = Deno.args;
if (isPlanned(part)) {
  const flags = await planFor(part, args, world).then(flagsOf).catch((error) => {
    if (error instanceof MosaicError) return [];
    throw error;
  });
  console.log(flags.join("\n"));
}

/**
 * What the portable executable runs before the program itself: prints the flags of a command line, one a line.
 *
 * A command line that cannot be planned gets what help needs: the program then says what is wrong with it.
 */
import { MosaicError } from "../base/errors.ts";
import { EXTRA_VARIABLE, extraPermissions, flagsOf } from "./permissions.ts";
import { helpPlan, planFor } from "./plan.ts";
import { realWorld } from "./world.ts";

const world = realWorld();
try {
  // What the program would never look at, and so not complain of.
  extraPermissions(world.env(EXTRA_VARIABLE));
} catch (error) {
  if (!(error instanceof MosaicError)) throw error;
  console.error(`mosaic: ${error.message}\n  ${error.hint}`);
  Deno.exit(2);
}
const planned = await planFor(Deno.args, world).catch((error) => {
  if (error instanceof MosaicError) return helpPlan();
  throw error;
});
console.log(flagsOf(planned).join("\n"));

/**
 * The exact permissions of a command line: what the verb needs with these arguments, in this environment, and nothing
 * else. Decides only; what it depends on comes in as a World.
 */
import { MosaicError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest.ts";
import { withAddresses } from "./addresses.ts";
import { hasFlag, splitCommand } from "./arguments.ts";
import { CLIENT_VERBS, clientPlan } from "./client_plan.ts";
import { daemonPlan } from "./daemon_plan.ts";
import { EXTRA_VARIABLE, extraPermissions, type Permissions, permissions, together } from "./permissions.ts";
import { proxyPlan } from "./proxy_plan.ts";
import type { World } from "./world.ts";

/**
 * @param words a command line without the program's name
 * @throws MosaicError `invalid_argument` for an unknown verb, an option without its value, an address that is none.
 */
export async function planFor(words: readonly string[], world: World): Promise<Permissions> {
  const planned = needed(words, world);
  const extra = extraPermissions(world.env(EXTRA_VARIABLE));
  return await withAddresses(together(planned, extra), (name) => world.resolve(name));
}

/** The same without what an operator adds. @throws as planFor */
export async function needsOf(words: readonly string[], world: World): Promise<Permissions> {
  return await withAddresses(needed(words, world), (name) => world.resolve(name));
}

function needed(words: readonly string[], world: World): Permissions {
  const [verb, ...args] = words;
  if (verb === undefined) throw new MosaicError("invalid_argument", "no command is given whose permissions to plan");
  if (hasFlag(splitCommand(args), "--help", "-h")) return helpPlan();
  const plan = planOfVerb(verb, args, world);
  if (plan !== undefined) return plan;
  const known = ["daemon", "proxy", ...CLIENT_VERBS];
  throw new MosaicError("invalid_argument", `unknown command "${verb}".${didYouMean(verb, known)}`, {
    hint: `"mosaic --help" lists all commands.`,
  });
}

function planOfVerb(verb: string, args: readonly string[], world: World): Permissions | undefined {
  if (verb === "daemon") return daemonPlan(args, world);
  if (verb === "proxy") return proxyPlan(args, world);
  return clientPlan(verb, args, world);
}

/** Of help, and of the message that a command is unknown. */
export function helpPlan(): Permissions {
  return permissions({ env: ["COLUMNS", "LINES", "NO_COLOR", "TERM", "MOSAIC_TRACE"], sys: ["hostname"] });
}

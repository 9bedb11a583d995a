/**
 * The minimal permissions of a daemon or proxy with these arguments, in this environment. Pure: its
 * inputs are in a World. Clients use a fixed set (scripts/compile/client_permissions.sh).
 */
import { withAddresses } from "./addresses.ts";
import { daemonPlan } from "./daemon_plan.ts";
import { EXTRA_VARIABLE, extraPermissions, type Permissions, together } from "./permissions.ts";
import { proxyPlan } from "./proxy_plan.ts";
import type { World } from "./world.ts";

const PLANS = { daemon: daemonPlan, proxy: proxyPlan, up: daemonPlan };

export type PlannedPart = keyof typeof PLANS;
export const PLANNED_PARTS: readonly string[] = Object.keys(PLANS);

export function isPlanned(verb: string): verb is PlannedPart {
  return PLANNED_PARTS.includes(verb);
}

/**
 * @throws MosaicError `invalid_argument` for an option without its value, an invalid address, an
 * invalid `$MOSAIC_ALLOW`.
 */
export async function planFor(
  part: PlannedPart,
  args: readonly string[],
  world: World,
): Promise<Permissions> {
  const extra = extraPermissions(world.env(EXTRA_VARIABLE));
  return await withAddresses(
    together(PLANS[part](args, world), extra),
    (name) => world.resolve(name),
  );
}

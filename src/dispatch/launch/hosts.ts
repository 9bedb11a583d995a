/** The kinds of host a run's processes can be on, and which one a run's config asks for. */
import type { RunPlan } from "../../config/plan.ts";
import type { Host } from "../attempt/host.ts";
import { ExternalHost } from "./external_host.ts";
import type { Launcher } from "./launcher.ts";
import { LocalHost, type LocalHostOptions } from "./local/local_host.ts";
import { PlacedHost } from "./placed/placed_host.ts";
import type { Placer } from "./placed/placer.ts";

export interface Hosts {
  local: LocalHost;
  hostOf: (plan: RunPlan) => Host;
  /** The engine that places the plan's runs; undefined where none does. */
  launcherOf: (plan: RunPlan) => Launcher | undefined;
}

export function hosts(
  options: LocalHostOptions & { graceSeconds: number; launchers: readonly Launcher[]; placer: () => Placer },
): Hosts {
  const local = new LocalHost(options);
  const external = new ExternalHost(options);
  const placed = new PlacedHost({ ...options, attach: (row, _plan, files) => local.attachHere(row, files) });
  return {
    local,
    hostOf: ({ worker, launcher }) => worker.external ? external : launcher === "local" ? local : placed,
    launcherOf: ({ launcher }) => options.launchers.find(({ name }) => name === launcher),
  };
}

/** The kinds of host, and which one a run's config asks for. */
import { MosaicError } from "../../base/errors.ts";
import type { RunPlan } from "../../config/plan.ts";
import type { Host } from "../attempt/state/host.ts";
import { ExternalHost } from "./external_host.ts";
import type { Launcher } from "./engine/launcher.ts";
import { LocalHost, type LocalHostOptions } from "./local/local_host.ts";
import { PlacedHost } from "./placed/placed_host.ts";
import type { Placer } from "./placed/placer.ts";

export interface Hosts {
  local: LocalHost;
  hostOf: (plan: RunPlan) => Host;
  /** The engine that places the plan's runs; undefined if none does. */
  launcherOf: (plan: RunPlan) => Launcher | undefined;
  /** @throws MosaicError where a run of this plan can never be started here */
  admit: (plan: RunPlan, owner: string) => void;
}

export function hosts(
  options: LocalHostOptions & {
    graceSeconds: number;
    launchers: readonly Launcher[];
    placer: () => Placer;
  },
): Hosts {
  const launcherOf = ({ launcher }: RunPlan) =>
    options.launchers.find(({ name }) => name === launcher);
  const local = new LocalHost(options);
  const external = new ExternalHost(options);
  const placed = new PlacedHost({
    ...options,
    attach: (row, _plan, files) => local.attachHere(row, files),
    uploads: (plan) => launcherOf(plan)?.nodeDirectory?.(plan) !== undefined,
  });
  return {
    local,
    hostOf: ({ worker, launcher }) =>
      worker.external ? external : launcher === "local" ? local : placed,
    launcherOf,
    admit(plan, owner) {
      const elsewhere = plan.worker.external || plan.launcher !== "local";
      const problem = launcherOf(plan)?.admit(plan) ??
        (plan.worker.user !== "" && elsewhere
          ? "metadata.worker.user works for workers that the daemon itself starts, on its own host"
          : plan.resumeFrom !== null && elsewhere
          ? "metadata.resume_from works for workers that the daemon itself starts, on its own host"
          : undefined);
      if (problem !== undefined) throw new MosaicError("invalid_argument", problem);
      if (options.workerUser !== undefined && launcherOf(plan) !== undefined) {
        throw new MosaicError(
          "failed_precondition",
          `metadata.launcher is ${
            JSON.stringify(plan.launcher)
          }, and what it places runs as the daemon's user: ` +
            "this daemon's --worker-user cannot hold there",
          {
            hint:
              "Submit the run to a daemon of the user that it is to run as, or leave out metadata.launcher.",
          },
        );
      }
      local.admit(plan, owner);
    },
  };
}

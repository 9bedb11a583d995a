/** The kinds of host a run's processes can be on, and which one a run's config asks for. */
import type { RunPlan } from "../../config/plan.ts";
import type { Host } from "../attempt/host.ts";
import { ExternalHost } from "./external_host.ts";
import { LocalHost, type LocalHostOptions } from "./local/local_host.ts";

export interface Hosts {
  local: LocalHost;
  hostOf: (plan: RunPlan) => Host;
}

export function hosts(options: LocalHostOptions & { graceSeconds: number }): Hosts {
  const local = new LocalHost(options);
  const external = new ExternalHost(options);
  return { local, hostOf: (plan) => plan.worker.external ? external : local };
}

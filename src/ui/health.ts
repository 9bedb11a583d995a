/** `/readyz`: whether this daemon can take work now, and if not, why. */
import type { Core } from "../core/core.ts";

export interface Readiness {
  ready: boolean;
  checks: Record<string, { ok: boolean; detail: string }>;
}

export function readiness(core: Core, accepting: boolean, diskFloorBytes: number): Readiness {
  const free = core.host().diskAvailableBytes;
  const checks = {
    accepting: { ok: accepting, detail: accepting ? "takes submissions" : "is stopping" },
    store: core.telemetry.writable()
      ? { ok: true, detail: "the last write succeeded" }
      : { ok: false, detail: "the last write of telemetry failed; see the daemon's log" },
    disk: { ok: free >= diskFloorBytes, detail: `${free} bytes are free, the floor is ${diskFloorBytes}` },
  };
  return { ready: Object.values(checks).every((c) => c.ok), checks };
}

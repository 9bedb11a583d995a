/** What the metrics need from the daemon's core. */
import type { Registry } from "../registry/registry.ts";
import type { TelemetryLog } from "../telemetry/types.ts";
import type { Activity } from "./activity.ts";

export interface Observed {
  readonly registry: Pick<Registry, "countByState" | "gpuSlots" | "eventHead" | "writable">;
  readonly telemetry: Pick<TelemetryLog, "storedSinceStart" | "rings" | "writable">;
  readonly activity: Activity;
  readonly startedAt: number;
  readonly version: string;
  host(): { stateDir: string; diskBytes: number; diskAvailableBytes: number };
}

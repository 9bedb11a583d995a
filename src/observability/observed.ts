/** What this room asks of the daemon; whoever implements the core of it does. */
import type { RunReader } from "../registry/run_reader.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { Activity } from "./activity.ts";

export interface Observed {
  readonly runs: Pick<RunReader, "countByState" | "gpuSlots" | "eventHead" | "writable">;
  readonly records: Pick<TelemetryReader, "storedSinceStart" | "rings" | "writable">;
  readonly activity: Activity;
  readonly startedAt: number;
  readonly version: string;
  host(): { stateDir: string; diskBytes: number; diskAvailableBytes: number };
}

/** The interface of the daemon that this room needs; the core implements it. */
import type { RunReader } from "../registry/run_reader.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { Activity } from "./activity.ts";

export interface Observed {
  readonly runs: Pick<RunReader, "countByState" | "gpus" | "eventHead" | "writable">;
  readonly records: Pick<TelemetryReader, "storedSinceStart" | "rings" | "writable">;
  readonly activity: Activity;
  readonly startedAt: number;
  readonly version: string;
  host(): { stateDir: string; diskBytes: number; diskAvailableBytes: number };
}

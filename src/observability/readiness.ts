/**
 * Whether the daemon can accept work, and if not, why; for `/readyz` and the gRPC health service.
 */
import type { Observed } from "./observed.ts";

export interface Readiness {
  ready: boolean;
  checks: Record<
    "accepting" | "registry" | "telemetry" | "disk" | "descriptors" | "listeners",
    { ok: boolean; detail: string }
  >;
}

export interface ReadinessOptions {
  /** False while the daemon is stopping. */
  accepting: () => boolean;
  /** No file descriptor is left. */
  shortOfDescriptors?: () => boolean;
  /** All listeners accept connections. */
  listening?: boolean;
  /** Minimum free space on the state directory's file system; default 256 MiB. */
  diskFloorBytes?: number;
}

const DISK_FLOOR_BYTES = 256 * 1024 * 1024;

export function readinessOf(daemon: Observed, options: ReadinessOptions): Readiness {
  const floor = options.diskFloorBytes ?? DISK_FLOOR_BYTES;
  const free = daemon.host().diskAvailableBytes;
  const accepting = options.accepting();
  const short = options.shortOfDescriptors?.() ?? false;
  const { listening = true } = options;
  const checks = {
    accepting: { ok: accepting, detail: accepting ? "takes submissions" : "is stopping" },
    registry: written(daemon.runs.writable()),
    telemetry: written(daemon.records.writable()),
    disk: { ok: free >= floor, detail: `${free} bytes are free, the floor is ${floor}` },
    descriptors: {
      ok: !short,
      detail: short ? "no file descriptor is left: raise the limit (ulimit -n)" : "are left",
    },
    listeners: {
      ok: listening,
      detail: listening ? "accept connections" : "one accepts none; see the daemon's log",
    },
  };
  return { ready: Object.values(checks).every((check) => check.ok), checks };
}

function written(ok: boolean): { ok: boolean; detail: string } {
  return { ok, detail: ok ? "can be written" : "cannot be written; see the daemon's log" };
}

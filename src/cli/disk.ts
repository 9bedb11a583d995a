/** What runs take on the daemon's disk. */
import type { DiskUsageResponse } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Link } from "./daemon_link.ts";

/** The daemon walks through all files of all runs, which takes minutes where there are many or the disk is slow. */
const WALK_MS = 5 * 60_000;

/** Waits as long as a walk may take. */
export function diskUsage(link: Link): Promise<DiskUsageResponse> {
  return link.unary(link.methods.getDiskUsage, {}, undefined, WALK_MS);
}

/** The same for who can do without: waits no longer than for any other call. */
export function diskUsageSoon(link: Link): Promise<DiskUsageResponse> {
  return link.unary(link.methods.getDiskUsage, {});
}

/** Bytes of each run's files and telemetry, by run id. */
export function bytesByRun({ runs, telemetry }: DiskUsageResponse): Map<string, number> {
  const found = new Map<string, number>();
  for (const [runId, bytes] of [...Object.entries(runs), ...Object.entries(telemetry)]) {
    found.set(runId, (found.get(runId) ?? 0) + Number(bytes));
  }
  return found;
}

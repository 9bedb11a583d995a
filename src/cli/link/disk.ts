/** Disk space that runs use. */
import type { DiskUsageResponse } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { Link } from "./daemon_link.ts";

/**
 * The daemon reads the sizes of all files of all runs, which takes minutes for many files or a slow
 * disk.
 */
const WALK_MS = 5 * 60_000;

/** Waits up to five minutes for the result. */
export function diskUsage(link: Link): Promise<DiskUsageResponse> {
  return link.unary(link.methods.getDiskUsage, {}, undefined, WALK_MS);
}

/** With the default deadline, for callers that can do without the result. */
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

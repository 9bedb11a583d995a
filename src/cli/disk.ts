/** What runs take on the daemon's disk. */
import type { Link } from "./link.ts";

/** Bytes of each run's files and telemetry, by run id. */
export async function bytesByRun(link: Link): Promise<Map<string, number>> {
  const { runs, telemetry } = await link.unary(link.methods.getDiskUsage, {});
  const found = new Map<string, number>();
  for (const [runId, bytes] of [...Object.entries(runs), ...Object.entries(telemetry)]) {
    found.set(runId, (found.get(runId) ?? 0) + Number(bytes));
  }
  return found;
}

/** What runs take on the daemon's disk. */
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Link } from "./link.ts";

/** Bytes of each run's files, by run id. */
export async function bytesByRun(link: Link): Promise<Map<string, number>> {
  const { runs } = await link.unary(Mosaic.method.getDiskUsage, {});
  return new Map(Object.entries(runs).map(([runId, bytes]) => [runId, Number(bytes)]));
}

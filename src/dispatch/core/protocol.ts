/** The version of the original contract that workers and proxies register with. */
import { MosaicError } from "../../base/errors.ts";

const OURS = "MOSAIC/1.0";

/**
 * The version used for a worker that asked for `wanted`: any minor version of our major; ours if it names none.
 * @throws MosaicError `failed_precondition` naming both sides
 */
export function acceptedProtocol(wanted: string): string {
  if (wanted === "") return OURS;
  if (/^MOSAIC\/1(\.\d+)*$/.test(wanted)) return wanted;
  throw new MosaicError("failed_precondition", `the worker speaks ${JSON.stringify(wanted)}, this daemon ${OURS}`, {
    hint: "Use a worker and a daemon with the same major version.",
  });
}

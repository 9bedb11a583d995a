/** What is made from a run's session token. */
import { sha256 } from "./node_modules.ts";

/**
 * What a run's worker is given to publish with. It is made from the run's session token, so that it lives as long and is
 * kept nowhere else, and does not tell it: delivering, and reporting the worker's exit, stays its proxy's.
 */
export function workerToken(sessionToken: string): string {
  return sha256().update(`mosaic worker ${sessionToken}`).digest("hex").slice(0, 32);
}

/** By which a token is known to whoever must not have it. */
export function tokenHash(token: string): string {
  return sha256().update(token).digest("base64");
}

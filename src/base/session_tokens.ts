/** Derives values from a run's session token. */
import { sha256 } from "./node_modules.ts";

/**
 * The token with which a run's worker publishes. It is derived from the run's session token, so it
 * is valid as long and stored nowhere else, and does not reveal it: only the proxy can deliver, and
 * report the worker's exit.
 */
export function workerToken(sessionToken: string): string {
  return sha256().update(`mosaic worker ${sessionToken}`).digest("hex").slice(0, 32);
}

/** Identifies a token without revealing it. */
export function tokenHash(token: string): string {
  return sha256().update(token).digest("base64");
}

/** gRPC's numbers for mosaic's error codes, without a library. */
import { type ErrorCode, MosaicError } from "../base/errors.ts";

export const STATUS: Readonly<Record<ErrorCode, number>> = {
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  aborted: 10,
  out_of_range: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
};

/** The hint for mosaic's own clients; others find it as the last line of the details. */
export const HINT_TRAILER = "mosaic-hint-bin";
/** Milliseconds after which to try again; gRPC clients with a retry policy respect it. */
export const RETRY_TRAILER = "grpc-retry-pushback-ms";

/**
 * Sent with a status: the hint, the milliseconds after which to try again, and the cause for the
 * log.
 */
export interface StatusTrailers {
  hint: string | undefined;
  retryAfterMs?: string;
  cause?: unknown;
}

/** @param details as received, with the hint as their last line */
export function errorOf(code: ErrorCode, details: string, trailers: StatusTrailers): MosaicError {
  const { hint, cause } = trailers;
  const retryAfterMs = trailers.retryAfterMs === undefined
    ? undefined
    : Number(trailers.retryAfterMs);
  if (hint === undefined) return new MosaicError(code, details, { cause, retryAfterMs });
  const message = details.endsWith(`\n${hint}`) ? details.slice(0, -hint.length - 1) : details;
  return new MosaicError(code, message, { hint, cause, retryAfterMs });
}

/** gRPC status → MosaicError, for the tests' gRPC client. */
import type { ServiceError } from "@grpc/grpc-js";
import { type ErrorCode, messageOf, MosaicError } from "../../src/base/errors.ts";
import { errorOf, HINT_TRAILER, RETRY_TRAILER, STATUS } from "../../src/wire/status_codes.ts";

const CANCELLED = 1;
const CODE = new Map<number, ErrorCode>(
  Object.entries(STATUS).map(([code, n]) => [n, code as ErrorCode]),
);

/** grpc-js reports a connection that breaks during a call as an internal error of the client. */
function lostConnection(status: number, details: string): boolean {
  return status === STATUS.internal && /^Received RST_STREAM with code \d+/.test(details);
}

/** The error a client sees for a failed call. */
export function errorFromStatus(error: unknown): MosaicError {
  if (error instanceof MosaicError) return error;
  const failure = error as Partial<ServiceError>;
  if (typeof failure?.code !== "number") {
    return new MosaicError("internal", messageOf(error), { cause: error });
  }
  const details = failure.details || messageOf(error);
  const trailer = (name: string) => failure.metadata?.get?.(name)[0]?.toString();
  const code = lostConnection(failure.code, details)
    ? "unavailable"
    : failure.code === CANCELLED
    ? "aborted"
    : CODE.get(failure.code) ?? "internal";
  return errorOf(code, details, {
    hint: trailer(HINT_TRAILER),
    retryAfterMs: trailer(RETRY_TRAILER),
    cause: error,
  });
}

/** MosaicError ↔ gRPC status. The hint travels in the details for foreign clients and as a trailer for our own. */
import { Metadata, type ServiceError, status, type StatusObject } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { type ErrorCode, messageOf, MosaicError } from "../errors.ts";

const STATUS: Record<ErrorCode, status> = {
  invalid_argument: status.INVALID_ARGUMENT,
  not_found: status.NOT_FOUND,
  already_exists: status.ALREADY_EXISTS,
  failed_precondition: status.FAILED_PRECONDITION,
  resource_exhausted: status.RESOURCE_EXHAUSTED,
  out_of_range: status.OUT_OF_RANGE,
  unauthenticated: status.UNAUTHENTICATED,
  permission_denied: status.PERMISSION_DENIED,
  unimplemented: status.UNIMPLEMENTED,
  unavailable: status.UNAVAILABLE,
  deadline_exceeded: status.DEADLINE_EXCEEDED,
  aborted: status.ABORTED,
  internal: status.INTERNAL,
};

const CODE = new Map<status, ErrorCode>(Object.entries(STATUS).map(([code, n]) => [n, code as ErrorCode]));

const HINT_TRAILER = "mosaic-hint-bin";
const RETRY_TRAILER = "grpc-retry-pushback-ms";
/** Details travel in a header, whose size peers limit (8 KiB is common), three bytes for each that is not ASCII. */
const MAX_DETAILS = 2000;

function bounded(text: string): string {
  if (text.length <= MAX_DETAILS) return text;
  return `${text.slice(0, MAX_DETAILS)}… (${text.length - MAX_DETAILS} more characters)`;
}

/** What a client may know of an error: of a defect nothing but that it is one. */
export function statusOf(error: unknown): Partial<StatusObject> & { code: status; details: string } {
  if (!(error instanceof MosaicError) || error.code === "internal") {
    return { code: status.INTERNAL, details: "internal error; the daemon's log has the details" };
  }
  const message = bounded(error.message);
  const metadata = new Metadata();
  // What gRPC clients with a retry policy obey.
  if (error.retryAfterMs !== undefined) metadata.set(RETRY_TRAILER, String(error.retryAfterMs));
  if (error.hint === undefined) return { code: STATUS[error.code], details: message, metadata };
  const hint = bounded(error.hint);
  metadata.set(HINT_TRAILER, Buffer.from(hint, "utf8"));
  return { code: STATUS[error.code], details: `${message}\n${hint}`, metadata };
}

/** A connection that breaks in mid-call is told by grpc-js as an internal error of the client. */
function lostConnection(code: number, details: string): boolean {
  return code === status.INTERNAL && /^Received RST_STREAM with code \d+/.test(details);
}

/** The error a client sees for a failed call. */
export function errorFromStatus(error: unknown): MosaicError {
  if (error instanceof MosaicError) return error;
  const failure = error as Partial<ServiceError>;
  if (typeof failure?.code !== "number") {
    return new MosaicError("internal", messageOf(error), { cause: error });
  }
  const details = failure.details || messageOf(error);
  const code = lostConnection(failure.code, details)
    ? "unavailable"
    : failure.code === status.CANCELLED
    ? "aborted"
    : CODE.get(failure.code) ?? "internal";
  const pushback = failure.metadata?.get?.(RETRY_TRAILER)[0];
  const retryAfterMs = pushback === undefined ? undefined : Number(pushback.toString());
  const trailer = failure.metadata?.get?.(HINT_TRAILER)[0];
  if (trailer === undefined) return new MosaicError(code, details, { cause: error, retryAfterMs });
  const hint = trailer.toString();
  const message = details.endsWith(`\n${hint}`) ? details.slice(0, -hint.length - 1) : details;
  return new MosaicError(code, message, { hint, cause: error, retryAfterMs });
}

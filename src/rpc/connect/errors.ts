/**
 * Errors in Connect and gRPC-Web: codes and messages as in gRPC; the hint and the time until the
 * next try are metadata.
 */
import type { ErrorCode } from "../../base/errors.ts";
import { END_STREAM, envelope } from "../../wire/http/connect.ts";
import { HINT_TRAILER, RETRY_TRAILER, STATUS } from "../../wire/status_codes.ts";
import { publicErrorOf } from "../../wire/public_error.ts";

const encoder = new TextEncoder();

const HTTP_STATUS: Readonly<Record<ErrorCode, number>> = {
  invalid_argument: 400,
  failed_precondition: 400,
  out_of_range: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  aborted: 409,
  resource_exhausted: 429,
  internal: 500,
  unimplemented: 501,
  unavailable: 503,
  deadline_exceeded: 504,
};

function withMetadata(
  error: unknown,
): { code: ErrorCode; message: string; metadata: Record<string, string> } {
  const { code, message, hint, retryAfterMs } = publicErrorOf(error);
  const metadata: Record<string, string> = {};
  if (retryAfterMs !== undefined) metadata[RETRY_TRAILER] = String(retryAfterMs);
  if (hint !== undefined) {
    metadata[HINT_TRAILER] = encoder.encode(hint).toBase64({ omitPadding: true });
  }
  return { code, message, metadata };
}

/** The answer to a unary call of Connect that failed. @param status default: the code's own */
export function refusal(
  error: unknown,
  status?: number,
  headers: Record<string, string> = {},
): Response {
  const { code, message, metadata } = withMetadata(error);
  return Response.json({ code, message }, {
    status: status ?? HTTP_STATUS[code],
    headers: { ...metadata, ...headers },
  });
}

/** The last envelope of a Connect stream. @param error undefined if the stream succeeded */
export function endOfStream(error?: unknown): Uint8Array<ArrayBuffer> {
  let end = {};
  if (error !== undefined) {
    const { code, message, metadata } = withMetadata(error);
    const values = Object.entries(metadata).map(([name, value]) => [name, [value]]);
    end = { error: { code, message }, metadata: Object.fromEntries(values) };
  }
  return envelope(encoder.encode(JSON.stringify(end)), END_STREAM);
}

/** The flag of gRPC-Web's last envelope. */
const WEB_TRAILERS = 0x80;

/** The last envelope of a gRPC-Web call. @param error undefined if the call succeeded */
export function webTrailers(error?: unknown): Uint8Array<ArrayBuffer> {
  const trailers: Record<string, string> = { "grpc-status": "0" };
  if (error !== undefined) {
    const { code, message, metadata } = withMetadata(error);
    Object.assign(trailers, metadata, {
      "grpc-status": String(STATUS[code]),
      "grpc-message": encodeURIComponent(message.toWellFormed()),
    });
  }
  const text = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return envelope(encoder.encode(text), WEB_TRAILERS);
}

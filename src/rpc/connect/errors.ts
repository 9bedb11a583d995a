/**
 * MosaicError in Connect and gRPC-Web: the same codes and details as in gRPC, with hint and time of the next try as
 * metadata.
 */
import { type ErrorCode, MosaicError } from "../../base/errors.ts";
import { boundedText } from "../../wire/details.ts";
import { END_STREAM, envelope } from "../../wire/connect.ts";
import { HINT_TRAILER, RETRY_TRAILER, STATUS } from "../../wire/status_codes.ts";

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

interface Told {
  code: ErrorCode;
  message: string;
  metadata: Record<string, string>;
}

/** The part of an error that a client may see; nothing of a defect. */
function told(error: unknown): Told {
  if (!(error instanceof MosaicError) || error.code === "internal") {
    return { code: "internal", message: "internal error; the daemon's log has the details", metadata: {} };
  }
  const message = boundedText(error.message);
  const metadata: Record<string, string> = {};
  if (error.retryAfterMs !== undefined) metadata[RETRY_TRAILER] = String(error.retryAfterMs);
  const hint = error.hint === undefined ? undefined : boundedText(error.hint);
  if (hint !== undefined) metadata[HINT_TRAILER] = encoder.encode(hint).toBase64({ omitPadding: true });
  return { code: error.code, message: hint === undefined ? message : `${message}\n${hint}`, metadata };
}

/** The answer to a failed unary call of Connect. @param status if it is not the code's own */
export function refusal(error: unknown, status?: number): Response {
  const { code, message, metadata } = told(error);
  return Response.json({ code, message }, { status: status ?? HTTP_STATUS[code], headers: metadata });
}

/** The last envelope of a Connect stream, with its error if it failed. */
export function endOfStream(error?: unknown): Uint8Array<ArrayBuffer> {
  return envelope(encoder.encode(JSON.stringify(error === undefined ? {} : endOf(told(error)))), END_STREAM);
}

function endOf({ code, message, metadata }: Told): Record<string, unknown> {
  return {
    error: { code, message },
    metadata: Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, [value]])),
  };
}

/** The flag of gRPC-Web's last envelope. */
const WEB_TRAILERS = 0x80;

/** The last envelope of a gRPC-Web call. */
export function webTrailers(error?: unknown): Uint8Array<ArrayBuffer> {
  const trailers: Record<string, string> = { "grpc-status": "0" };
  if (error !== undefined) {
    const { code, message, metadata } = told(error);
    Object.assign(trailers, metadata, {
      "grpc-status": String(STATUS[code]),
      "grpc-message": encodeURIComponent(message.toWellFormed()),
    });
  }
  const text = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return envelope(encoder.encode(text), WEB_TRAILERS);
}

/** Converts errors of the core to HTTP, and query texts to values. */
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { type ErrorCode, MosaicError } from "../../base/errors.ts";

const HTTP_STATUS: Record<ErrorCode, ContentfulStatusCode> = {
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  failed_precondition: 409,
  aborted: 409,
  out_of_range: 416,
  resource_exhausted: 429,
  internal: 500,
  unimplemented: 501,
  unavailable: 503,
  deadline_exceeded: 504,
};

const REFUSED_CODES = {
  400: "bad_request",
  408: "request_timeout",
  413: "content_too_large",
} as const;

/** A request that is refused as HTTP, before the core is called. */
export class RequestRefused extends Error {
  override readonly name = "RequestRefused";
  readonly status: keyof typeof REFUSED_CODES;

  constructor(status: keyof typeof REFUSED_CODES, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** The body of every failed request. It reveals no internals of a defect: the log has them. */
export function errorBody(
  error: unknown,
): { status: ContentfulStatusCode; body: Record<string, unknown> } {
  if (error instanceof RequestRefused) {
    return {
      status: error.status,
      body: { error: { code: REFUSED_CODES[error.status], message: error.message } },
    };
  }
  if (!(error instanceof MosaicError) || error.code === "internal") {
    return {
      status: 500,
      body: { error: { code: "internal", message: "internal error; see the daemon's log" } },
    };
  }
  const { code, message, hint } = error;
  return {
    status: HTTP_STATUS[code],
    body: { error: { code, message, ...(hint === undefined ? {} : { hint }) } },
  };
}

/**
 * An integer of the query between `min` and `max`; `fallback` if it is absent. @throws
 * `invalid_argument`.
 */
export function wholeNumber(
  name: string,
  text: string | undefined,
  fallback: number,
  min = 0,
  max = Number.MAX_SAFE_INTEGER,
): number {
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < min || value > max) {
    throw new MosaicError(
      "invalid_argument",
      `${name} is "${text}"; must be an integer from ${min} to ${max}`,
    );
  }
  return value;
}

/** The parts of a comma-separated list, without empty ones. */
export function listOf(text: string | undefined): string[] {
  return (text ?? "").split(",").map((t) => t.trim()).filter((t) => t !== "");
}

/**
 * The one error class of mosaic's public surface: a closed list of codes, a message that names the field, the value
 * and what to do, and optionally a hint. Adapters (gRPC, HTTP, CLI) map the code; `cause` is for the log only.
 */

/** The gRPC status names that mosaic uses, and what each means here. */
export type ErrorCode =
  /** The request itself is wrong; sending it again unchanged cannot succeed. */
  | "invalid_argument"
  /** No such run, file or series. */
  | "not_found"
  /** The run id is taken by a run with another configuration. */
  | "already_exists"
  /** The run (or daemon) is in a state that does not allow this. */
  | "failed_precondition"
  /** A bound was reached, or the host can never give what is asked. */
  | "resource_exhausted"
  /** Asked for telemetry that retention has removed; the message names the first seq available. */
  | "out_of_range"
  | "unauthenticated"
  | "permission_denied"
  | "unimplemented"
  /** The daemon cannot be reached, or its database cannot be written just now. */
  | "unavailable"
  | "deadline_exceeded"
  | "aborted"
  /** A defect of mosaic. */
  | "internal";

export class MosaicError extends Error {
  override readonly name = "MosaicError";
  readonly code: ErrorCode;
  /** What a person can do about it, as a sentence of its own. */
  readonly hint: string | undefined;
  /** When the same request may succeed, milliseconds from now, where that is known. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { hint?: string; cause?: unknown; retryAfterMs?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The text of anything thrown, for logs and wrapping. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * The one error class of mosaic's public surface: a closed list of codes, a message that names the
 * field, the value and what to do, and optionally a hint. Adapters (gRPC, HTTP, CLI) map the code;
 * `cause` is for the log only.
 */

/** The gRPC status names that mosaic uses, and what each means here. */
export type ErrorCode =
  /** The request itself is wrong; sending it again unchanged cannot succeed. */
  | "invalid_argument"
  /** No such run, file or series. */
  | "not_found"
  /** The run id belongs to a run with another config. */
  | "already_exists"
  /** The run (or daemon) is in a state that does not allow this. */
  | "failed_precondition"
  /** A limit was reached, or the host does not have the requested resources. */
  | "resource_exhausted"
  /**
   * The requested telemetry was removed by retention; the message names the first available seq.
   */
  | "out_of_range"
  | "unauthenticated"
  | "permission_denied"
  | "unimplemented"
  /** The daemon is unreachable, or its database cannot be written at the moment. */
  | "unavailable"
  | "deadline_exceeded"
  | "aborted"
  /** A bug in mosaic. */
  | "internal";

export class MosaicError extends Error {
  override readonly name = "MosaicError";
  readonly code: ErrorCode;
  /** One sentence that says what a person can do about it. */
  readonly hint: string | undefined;
  /** Milliseconds after which the same request may succeed, if known. */
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

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

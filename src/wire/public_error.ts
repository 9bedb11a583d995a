/** An error as clients receive it, the same over each protocol. */
import { type ErrorCode, MosaicError } from "../base/errors.ts";

/**
 * Most characters of a text: gRPC sends it in a header, with three bytes for each byte that is not
 * ASCII, and peers limit headers, commonly to 8 KiB.
 */
const MAX_CHARACTERS = 2000;

export interface PublicError {
  code: ErrorCode;
  /** The hint is its last line, for clients that do not read hints. */
  message: string;
  hint: string | undefined;
  retryAfterMs: number | undefined;
}

/**
 * An unexpected error is reported without its message, which may contain secrets; the log has it.
 */
export function publicErrorOf(error: unknown): PublicError {
  if (!(error instanceof MosaicError) || error.code === "internal") {
    const message = "internal error; the daemon's log has the details";
    return { code: "internal", message, hint: undefined, retryAfterMs: undefined };
  }
  const { code, retryAfterMs } = error;
  const message = bounded(error.message);
  const hint = error.hint === undefined ? undefined : bounded(error.hint);
  return {
    code,
    message: hint === undefined ? message : `${message}\n${hint}`,
    hint,
    retryAfterMs,
  };
}

function bounded(text: string): string {
  if (text.length <= MAX_CHARACTERS) return text;
  return `${text.slice(0, MAX_CHARACTERS)}… (${text.length - MAX_CHARACTERS} more characters)`;
}

/** What a client is told of an error, by whichever protocol. */
import { type ErrorCode, MosaicError } from "../base/errors.ts";

/** Details of an error travel in a header, whose size peers limit (8 KiB is common), three bytes for each that is not ASCII. */
const MAX_DETAILS = 2000;

export interface Told {
  code: ErrorCode;
  /** With the hint as its last line, for clients that know no hints. */
  message: string;
  hint: string | undefined;
  retryAfterMs: number | undefined;
}

/** Of a defect nothing but that it is one. */
export function toldOf(error: unknown): Told {
  if (!(error instanceof MosaicError) || error.code === "internal") {
    const message = "internal error; the daemon's log has the details";
    return { code: "internal", message, hint: undefined, retryAfterMs: undefined };
  }
  const { code, retryAfterMs } = error;
  const message = bounded(error.message);
  const hint = error.hint === undefined ? undefined : bounded(error.hint);
  return { code, message: hint === undefined ? message : `${message}\n${hint}`, hint, retryAfterMs };
}

function bounded(text: string): string {
  if (text.length <= MAX_DETAILS) return text;
  return `${text.slice(0, MAX_DETAILS)}… (${text.length - MAX_DETAILS} more characters)`;
}

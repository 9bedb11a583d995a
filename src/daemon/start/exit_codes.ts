/**
 * The daemon's exit codes, stable for service managers and scripts (docs/reference/operations.md).
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { explainShortage } from "../../os/processes/shortage.ts";

export const DAEMON_EXIT = {
  ok: 0,
  /** Wrong options, or another daemon uses the state directory. */
  usage: 2,
  /** The address for gRPC or the page is in use, or cannot be listened on. */
  addressTaken: 3,
  /** The state directory or a database in it cannot be used. */
  stateUnusable: 4,
  /** A database was written by a newer mosaic. */
  newerDatabase: 5,
  /** A database is damaged; `mosaic doctor --repair` recovers its readable rows. */
  damagedDatabase: 6,
  /** The daemon had grown beyond --max-memory; the service manager starts it again. */
  tooMuchMemory: 7,
  internal: 70,
} as const;

/** An error that ends the start of a daemon, with its exit code. */
export class StartFailure extends Error {
  readonly code: number;
  readonly hint: string | undefined;

  constructor(code: number, message: string, hint?: string) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}

/**
 * SQLite's messages for a damaged file and for a file that is not a database. (Deno does not always
 * set the error code.)
 */
const DAMAGE = /malformed|not a database/i;

/** Converts a known error during the start; undefined for a bug. */
export function startFailureOf(error: unknown): StartFailure | undefined {
  if (error instanceof StartFailure) return error;
  const known = explainShortage(error, "start");
  if (!(known instanceof MosaicError)) return undefined;
  if (known.cause !== undefined && DAMAGE.test(messageOf(known.cause))) {
    return new StartFailure(DAEMON_EXIT.damagedDatabase, known.message, known.hint);
  }
  const isUsage = ["invalid_argument", "failed_precondition", "permission_denied"].includes(
    known.code,
  );
  return new StartFailure(
    isUsage ? DAEMON_EXIT.usage : DAEMON_EXIT.stateUnusable,
    known.message,
    known.hint,
  );
}

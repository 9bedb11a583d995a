/** How the daemon leaves (docs/operations.md): a contract for service managers and scripts. */
import { messageOf, MosaicError } from "../base/errors.ts";
import { explainTrouble } from "../os/shortage.ts";

export const DAEMON_EXIT = {
  ok: 0,
  /** Wrong options, or another daemon has the state directory. */
  usage: 2,
  /** The address for gRPC or the page is taken, or cannot be listened on. */
  addressTaken: 3,
  /** The state directory or a database in it cannot be used. */
  stateUnusable: 4,
  /** A database was written by a newer mosaic. */
  newerDatabase: 5,
  /** A database is damaged: `mosaic doctor --repair` saves what can be read. */
  damagedDatabase: 6,
  /** It had grown beyond --max-memory; the service manager starts it again. */
  tooMuchMemory: 7,
  internal: 70,
} as const;

/** Ends the start of a daemon with a message for people and a code for programs. */
export class StartFailure extends Error {
  readonly code: number;
  readonly hint: string | undefined;

  constructor(code: number, message: string, hint?: string) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}

/** SQLite's words for a damaged file and for one that is none of its own. (The runtime gives the code only at times.) */
const DAMAGE = /malformed|not a database/i;

/** What an error that ends the start means to programs and people; undefined for a defect. */
export function startFailureOf(error: unknown): StartFailure | undefined {
  if (error instanceof StartFailure) return error;
  const known = explainTrouble(error, "start");
  if (!(known instanceof MosaicError)) return undefined;
  if (known.cause !== undefined && DAMAGE.test(messageOf(known.cause))) {
    return new StartFailure(DAEMON_EXIT.damagedDatabase, known.message, known.hint);
  }
  const isUsage = ["invalid_argument", "failed_precondition", "permission_denied"].includes(known.code);
  return new StartFailure(isUsage ? DAEMON_EXIT.usage : DAEMON_EXIT.stateUnusable, known.message, known.hint);
}

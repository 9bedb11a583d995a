/** How the daemon leaves (docs/operations.md): a contract for service managers and scripts. */
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

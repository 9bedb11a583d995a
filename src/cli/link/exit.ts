/** Exit codes of the verbs. Stable, documented in docs/reference/cli.md. */
import { type ErrorCode, MosaicError } from "../../base/errors.ts";
import type { Outcome } from "../../registry/lifecycle/lifecycle.ts";

export const EXIT = {
  ok: 0,
  /** The run failed, or the command failed. */
  failed: 1,
  /** Wrong arguments, or an invalid config. */
  usage: 2,
  /** The daemon is unreachable, or did not answer in time. */
  unreachable: 3,
  /** No such run, file or series. */
  notFound: 4,
  /** The run was cancelled. */
  canceled: 5,
  /** The run's state does not allow it. */
  refused: 6,
  /** A limit was reached, or the host does not have the requested resources. */
  exhausted: 7,
  /** Not authenticated, or not allowed. */
  denied: 8,
  /** The --timeout has expired. */
  timedOut: 9,
  /** A bug in mosaic. */
  internal: 70,
  /** Interrupted by Ctrl-C. */
  interrupted: 130,
} as const;

export function exitOfOutcome(outcome: Outcome | string): number {
  switch (outcome) {
    case "succeeded":
    case "pruned":
      return EXIT.ok;
    case "canceled":
      return EXIT.canceled;
    default:
      return EXIT.failed;
  }
}

const OF_CODE: Record<ErrorCode, number> = {
  invalid_argument: EXIT.usage,
  not_found: EXIT.notFound,
  already_exists: EXIT.refused,
  failed_precondition: EXIT.refused,
  aborted: EXIT.refused,
  resource_exhausted: EXIT.exhausted,
  out_of_range: EXIT.notFound,
  unauthenticated: EXIT.denied,
  permission_denied: EXIT.denied,
  unavailable: EXIT.unreachable,
  deadline_exceeded: EXIT.unreachable,
  unimplemented: EXIT.failed,
  internal: EXIT.internal,
};

export function exitOfError(error: unknown): number {
  return error instanceof MosaicError ? OF_CODE[error.code] : EXIT.internal;
}

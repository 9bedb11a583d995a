/**
 * What the headers of a request say about its sender. A uid only says whose program has sent a
 * request, not that the program wanted it: a webhook or a form carries requests that somebody else
 * has written.
 */
import { MosaicError } from "../base/errors.ts";

type Header = (name: string) => string | undefined;

const SENT_BY = "x-mosaic-sent-by";

/**
 * In every request that a daemon sends to an address that somebody has named: webhooks and exports.
 */
export const SENT_BY_DAEMON = { [SENT_BY]: "daemon" } as const;

/** @throws MosaicError `permission_denied` for a request that a daemon has sent, whoever runs it */
export function refuseSentByDaemon(header: Header): void {
  if (header(SENT_BY) === undefined) return;
  throw new MosaicError(
    "permission_denied",
    `a daemon has sent this request (${SENT_BY}): no daemon takes those`,
    {
      hint: "Name another receiver for webhooks and exports.",
    },
  );
}

const PROGRAM_HEADER = "connect-protocol-version";
/**
 * Content types that browsers do not send to another origin without asking it, and that no webhook
 * has.
 */
const PROGRAM_TYPE = /^application\/(proto|connect\+|grpc)/i;

/**
 * For a call that changes something and whose caller has shown no credential. Every client of
 * Connect, gRPC or gRPC-Web says which it speaks; forms, pages of other sites and webhooks cannot.
 * @throws MosaicError `permission_denied`
 */
export function requireProgram(header: Header): void {
  if (header(PROGRAM_HEADER) !== undefined || PROGRAM_TYPE.test(header("content-type") ?? "")) {
    return;
  }
  throw new MosaicError(
    "permission_denied",
    `the header ${PROGRAM_HEADER} is missing: a call without a token that changes something needs it`,
    {
      hint:
        `Send "${PROGRAM_HEADER}: 1", as clients of Connect do (curl: -H "${PROGRAM_HEADER}: 1").`,
    },
  );
}

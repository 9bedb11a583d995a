/** MosaicError as Connect has it: the same codes and details as gRPC, hint and time of the next try as metadata. */
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, codeToString, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { MosaicError } from "../../base/errors.ts";
import { boundedText } from "../../wire/details.ts";
import { END_STREAM, envelope } from "../../wire/connect.ts";
import { HINT_TRAILER, RETRY_TRAILER, STATUS } from "../../wire/status_codes.ts";

const encoder = new TextEncoder();

/** What a client may know of an error: of a defect nothing but that it is one. */
export function connectError(error: unknown): ConnectError {
  // The protocol's own: a message that is none, a deadline.
  if (error instanceof ConnectError) return error;
  if (!(error instanceof MosaicError) || error.code === "internal") {
    return new ConnectError("internal error; the daemon's log has the details", Code.Internal);
  }
  const message = boundedText(error.message);
  const metadata: Record<string, string> = {};
  if (error.retryAfterMs !== undefined) metadata[RETRY_TRAILER] = String(error.retryAfterMs);
  const hint = error.hint === undefined ? undefined : boundedText(error.hint);
  if (hint !== undefined) metadata[HINT_TRAILER] = encoder.encode(hint).toBase64({ omitPadding: true });
  return new ConnectError(
    hint === undefined ? message : `${message}\n${hint}`,
    STATUS[error.code] as Code,
    metadata,
  );
}

/** The answer to a unary call that failed. @param status where it is not the code's own */
export function refusal(error: unknown, status?: number): Response {
  const refused = connectError(error);
  const headers = new Headers(refused.metadata);
  headers.set("content-type", "application/json");
  return new Response(errorToJsonBytes(refused, undefined) as Uint8Array<ArrayBuffer>, {
    status: status ?? codeToHttpStatus(refused.code),
    headers,
  });
}

/** The envelope that ends a stream, with its error where it failed. */
export function endOfStream(error?: unknown): Uint8Array<ArrayBuffer> {
  const end = error === undefined ? {} : endOf(connectError(error));
  return envelope(encoder.encode(JSON.stringify(end)), END_STREAM);
}

function endOf({ code, rawMessage, metadata }: ConnectError): Record<string, unknown> {
  return {
    error: { code: codeToString(code), message: rawMessage },
    metadata: Object.fromEntries([...metadata].map(([name, value]) => [name, [value]])),
  };
}

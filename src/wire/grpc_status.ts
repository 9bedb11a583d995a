/** MosaicError → gRPC status. The hint is in the details for foreign clients and in a trailer for mosaic's own. */
import { Metadata, status, type StatusObject } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { MosaicError } from "../base/errors.ts";
import { boundedText } from "./details.ts";
import { HINT_TRAILER, RETRY_TRAILER, STATUS } from "./status_codes.ts";

/** The part of an error that a client may see; nothing of a defect. */
export function statusOf(error: unknown): Partial<StatusObject> & { code: status; details: string } {
  if (!(error instanceof MosaicError) || error.code === "internal") {
    return { code: status.INTERNAL, details: "internal error; the daemon's log has the details" };
  }
  const message = boundedText(error.message);
  const metadata = new Metadata();
  // gRPC clients with a retry policy respect it.
  if (error.retryAfterMs !== undefined) metadata.set(RETRY_TRAILER, String(error.retryAfterMs));
  if (error.hint === undefined) return { code: STATUS[error.code], details: message, metadata };
  const hint = boundedText(error.hint);
  metadata.set(HINT_TRAILER, Buffer.from(hint, "utf8"));
  return { code: STATUS[error.code], details: `${message}\n${hint}`, metadata };
}

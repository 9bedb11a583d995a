/**
 * MosaicError → gRPC status. The hint travels in the details for foreign clients and as a trailer
 * for our own.
 */
import { Metadata, type status, type StatusObject } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { HINT_TRAILER, RETRY_TRAILER, STATUS } from "./status_codes.ts";
import { publicErrorOf } from "./public_error.ts";

export function statusOf(
  error: unknown,
): Partial<StatusObject> & { code: status; details: string } {
  const { code, message, hint, retryAfterMs } = publicErrorOf(error);
  const metadata = new Metadata();
  // gRPC clients with a retry policy obey it.
  if (retryAfterMs !== undefined) metadata.set(RETRY_TRAILER, String(retryAfterMs));
  if (hint !== undefined) metadata.set(HINT_TRAILER, Buffer.from(hint, "utf8"));
  return { code: STATUS[code], details: message, metadata };
}

/**
 * An answer of one message, whose bytes count against the bounds until the client has read them.
 */
import type { CallContext } from "../call/calls.ts";
import { AnswerBody } from "./body.ts";
import type { StreamOptions } from "./streams.ts";

/** The runtime buffers this much of an answer anyway. */
const SMALL_BYTES = 16 << 10;
const WRITE_BYTES = 64 << 10;

/** @throws MosaicError `resource_exhausted` if too many bytes of answers are unread */
export function wholeAnswer(
  context: CallContext,
  peer: string,
  bytes: Uint8Array<ArrayBuffer>,
  headers: Record<string, string>,
  { stallMs }: StreamOptions,
): Response {
  if (bytes.length <= SMALL_BYTES) return new Response(bytes, { headers });
  const release = context.streams.holdAnswer(peer, bytes.length);
  const body = new AnswerBody(() => {}, stallMs);
  body.writeAll(chunksOf(bytes)).catch((error) => body.reset(error)).finally(release);
  return new Response(body.stream, {
    headers: { ...headers, "content-length": String(bytes.length) },
  });
}

function* chunksOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += WRITE_BYTES) yield bytes.subarray(at, at + WRITE_BYTES);
}

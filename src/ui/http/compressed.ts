/**
 * Compresses answers of the page's API. Each part of a stream is flushed as it comes: an event of a
 * live stream must not wait for the next.
 */
import { zlib } from "../../base/node_modules.ts";

const TYPES = /^(?:application\/json|application\/octet-stream|text\/event-stream)\b/;
/** Files are sent in ranges, and pictures of live environments change each time. */
const AS_THEY_ARE = /\/(?:artifacts\/|frames\/live$)/;
/** Half of what the best level saves costs a tenth of its time. */
const LEVEL = 3;

/** The same answer, compressed if the browser accepts that and it is worth it. */
export function compressed(request: Request, response: Response): Response {
  const { body, headers, status } = response;
  if (
    body === null || status !== 200 || headers.has("content-encoding") || request.method === "HEAD"
  ) return response;
  if (
    !TYPES.test(headers.get("content-type") ?? "") ||
    AS_THEY_ARE.test(new URL(request.url).pathname)
  ) {
    return response;
  }
  if (!/\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")) return response;
  const { createGzip, constants } = zlib();
  const { Duplex } = process.getBuiltinModule("node:stream");
  const pair = Duplex.toWeb(createGzip({ level: LEVEL, flush: constants.Z_SYNC_FLUSH }));
  const packed = body.pipeThrough(
    pair as unknown as ReadableWritablePair<Uint8Array<ArrayBuffer>, Uint8Array>,
  );
  const changed = new Headers(headers);
  changed.set("content-encoding", "gzip");
  changed.append("vary", "accept-encoding");
  changed.delete("content-length");
  return new Response(packed, { status, headers: changed });
}

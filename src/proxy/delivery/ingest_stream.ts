/** The stream to the daemon. */
import {
  type DaemonMessageSchema,
  Ingest,
  type ProxyMessageSchema,
} from "../../gen/mosaic/v1/ingest_pb.ts";
import type { DialOptions } from "../../wire/address/dial.ts";
import { type SocketStream, socketStream } from "../../wire/client/socket_stream.ts";

/** `cancel` closes everything that it holds. */
export type IngestStream = SocketStream<typeof ProxyMessageSchema, typeof DaemonMessageSchema>;

/** @throws MosaicError for an unusable address or token. */
export function openIngest(options: DialOptions): IngestStream {
  return socketStream(Ingest.method.deliver, options);
}

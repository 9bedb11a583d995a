/** The stream to the daemon: over a plain socket by a client of our own, with TLS by grpc-js, which takes longer to load. */
import type { Entrance } from "../client/dial_options.ts";
import { type SocketStream, socketStream } from "../wire/socket_stream.ts";
import { type DaemonMessageSchema, Ingest, type ProxyMessageSchema } from "../gen/mosaic/v1/mosaic_pb.ts";

/** `cancel` ends all that it holds. */
export type IngestStream = SocketStream<typeof ProxyMessageSchema, typeof DaemonMessageSchema>;

/** @throws MosaicError for an address, a token or certificates that cannot be used. */
export async function openIngest(entrance: Entrance): Promise<IngestStream> {
  if (entrance.tls === undefined) return socketStream(Ingest.method.deliver, entrance);
  const { MosaicClient } = await import("../client/client.ts");
  const client = new MosaicClient(entrance.target, entrance);
  const stream = client.duplex(Ingest.method.deliver);
  return {
    ...stream,
    cancel() {
      stream.cancel();
      client.close();
    },
  };
}

/**
 * Mends grpc-js in this process. A connection whose server takes it and sends it away at once (its settings and GOAWAY come
 * together, as from one that is stopping just then) has ended before the library listens for that; it is then held to be
 * a good one for ever, and a call on it is begun again and again, so fast that nothing else happens in the process and no
 * deadline passes. Here such a connection counts as none: the library pauses before it tries another.
 */
import { setImmediate } from "node:timers";
import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";

type Listener = (tooManyPings: boolean) => void;

/** Private in the library; where it is another one day, nothing is mended and nothing breaks. */
interface Transport {
  disconnectHandled?: boolean;
  addDisconnectListener(listener: Listener): void;
  shutdown(): void;
}

interface Connector {
  connect(...args: unknown[]): Promise<Transport>;
}

let mended = false;

/** To be called before the first connection is made; again does nothing. */
export function noticeEndedConnections(): void {
  if (mended) return;
  mended = true;
  const connector = Http2SubchannelConnector.prototype as unknown as Connector;
  const { connect } = connector;
  connector.connect = async function (...args) {
    const transport = await connect.apply(this, args);
    // What came with the settings has been looked at after this.
    await new Promise((resolve) => setImmediate(resolve));
    if (transport.disconnectHandled === true) {
      transport.shutdown();
      throw new Error("the server ended the connection as it began");
    }
    const { addDisconnectListener } = transport;
    transport.addDisconnectListener = (listener) => {
      if (transport.disconnectHandled === true) listener(false);
      else addDisconnectListener.call(transport, listener);
    };
    return transport;
  };
}

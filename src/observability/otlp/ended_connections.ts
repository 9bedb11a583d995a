/**
 * Patches a bug of grpc-js. If a stopping server sends its settings and GOAWAY together, the
 * connection ends before the library listens for its end. The library then believes it to be usable
 * and retries a call on it in a tight loop, which blocks the process. With the patch such a
 * connection counts as failed, and the library backs off.
 */
import { setImmediate } from "node:timers";
import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";

type Listener = (tooManyPings: boolean) => void;

/** Private in the library; if it changes, the patch does nothing. */
interface Transport {
  disconnectHandled?: boolean;
  addDisconnectListener(listener: Listener): void;
  shutdown(): void;
}

interface Connector {
  connect(...args: unknown[]): Promise<Transport>;
}

let mended = false;

/** Call before the first connection is made. Idempotent. */
export function noticeEndedConnections(): void {
  if (mended) return;
  mended = true;
  const connector = Http2SubchannelConnector.prototype as unknown as Connector;
  const { connect } = connector;
  connector.connect = async function (...args) {
    const transport = await connect.apply(this, args);
    // After this, everything that came with the settings has been handled.
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

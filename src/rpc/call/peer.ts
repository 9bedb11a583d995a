/** Who is at the other end of a connection. */

/** The peer's user, as far as it is known without a token. */
export interface User {
  /** The peer is the daemon's user, or has shown a certificate: it needs no token. */
  owner: boolean;
  /** Its uid on this machine, if known. */
  uid?: number | undefined;
}

/** The process at the other end of a connection. */
export interface Peer extends User {
  /**
   * `ADDRESS:PORT`; for a connection of gRPC's Unix socket UNIX_PEER and a number; for the daemon's
   * own socket UNIX_PEER.
   */
  name: string;
}

/** Name of all peers on the daemon's own Unix socket, which have no addresses. */
export const UNIX_PEER = "unix";

/** Where a browser finds the daemon's page. */

export interface PagePlace {
  /** HOST:PORT where the daemon says that it serves the page; "": nowhere. */
  http: string;
  /** The daemon's address takes TLS only. */
  https: boolean;
  /**
   * What the client connects to (docs/reference/cli.md, "The daemon"); undefined: the daemon's own
   * socket.
   */
  target: string | undefined;
  /** The client uses TLS where the target does not say. */
  tls: boolean;
}

/** With a slash at its end; undefined: there is no page. */
export function pageAddress({ http, https, target, tls }: PagePlace): string | undefined {
  // The page is where the API is. A name that works from here is better than what the daemon knows
  // of itself.
  if (target !== undefined && target !== "" && !/^(unix:|\/)/.test(target)) {
    const named = /^https?:\/\//.test(target) ? target : `${tls ? "https" : "http"}://${target}`;
    return `${named.replace(/\/+$/, "")}/`;
  }
  if (http === "") return undefined;
  // An address to listen on is none to connect to.
  return `${https ? "https" : "http"}://${
    http.replace(/^0\.0\.0\.0(?=:)/, "127.0.0.1").replace(/^\[::\](?=:)/, "[::1]")
  }/`;
}

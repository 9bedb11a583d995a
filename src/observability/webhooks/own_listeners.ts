/**
 * The daemon's own TCP listeners, to which no webhook may be sent, whatever addresses the daemon
 * may connect to: it would call itself as its own user.
 */
import { MosaicError } from "../../base/errors.ts";
import { isLoopback, parseListen } from "../../wire/address/address.ts";

interface Listener {
  host: string;
  port: number;
}

export class OwnListeners {
  readonly #listeners: Listener[];
  readonly #resolve: (name: string) => Promise<string[]>;

  /** @param addresses as in daemon.json; "" and Unix sockets, which no URL names, are ignored */
  constructor(addresses: readonly string[], resolve = addressesOf) {
    this.#resolve = resolve;
    this.#listeners = addresses.filter((address) => address !== "").map(parseListen)
      .filter((address) => address.type === "tcp").map(({ host, port }) => ({
        host: plain(host),
        port,
      }));
  }

  /**
   * @throws MosaicError `permission_denied` for a URL whose host is an address of a listener,
   * without resolving names
   */
  refuseNamed(url: string, field: string): void {
    const { host, port } = targetOf(url);
    const own = this.#at(isLocalName(host) ? "127.0.0.1" : host, port);
    if (own === undefined) return;
    throw new MosaicError("permission_denied", `${field}: ${url} is this daemon itself (${own})`, {
      hint: "Name another receiver.",
    });
  }

  /** The listener that the URL leads to at this moment; undefined: none. Names are resolved. */
  async of(url: string): Promise<string | undefined> {
    const { host, port } = targetOf(url);
    // Most targets have another port, and need no resolution.
    if (!this.#listeners.some((listener) => listener.port === port)) return undefined;
    const addresses = isLocalName(host)
      ? ["127.0.0.1", "::1"]
      : [host, ...await this.#resolve(host)];
    return addresses.map((address) => this.#at(address, port)).find((own) => own !== undefined);
  }

  #at(address: string, port: number): string | undefined {
    const ip = plain(address);
    const found = this.#listeners.find((listener) =>
      listener.port === port && reaches(ip, listener.host)
    );
    return found && `${found.host.includes(":") ? `[${found.host}]` : found.host}:${found.port}`;
  }
}

const isWildcard = (ip: string) => ip === "0.0.0.0" || ip === "::";
const isLocalName = (host: string) => /(^|\.)localhost\.?$/i.test(host);

function reaches(ip: string, listener: string): boolean {
  // The system connects the unspecified address to this host.
  const isHere = isWildcard(ip) || isLoopback({ type: "tcp", host: ip, port: 0 });
  if (isHere) return isWildcard(listener) || isLoopback({ type: "tcp", host: listener, port: 0 });
  return ip === listener || (isWildcard(listener) && ownInterfaces().includes(ip));
}

function ownInterfaces(): string[] {
  return Deno.networkInterfaces().map(({ address }) => plain(address));
}

/** Without brackets; an IPv4 address in the form of IPv6 as IPv4. */
function plain(host: string): string {
  const text = host.replace(/^\[|\]$/g, "").toLowerCase();
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(text) ?? [];
  if (high === undefined) return text.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/, "");
  const bits = (parseInt(high, 16) << 16 | parseInt(low!, 16)) >>> 0;
  return [24, 16, 8, 0].map((shift) => bits >>> shift & 255).join(".");
}

function targetOf(url: string): { host: string; port: number } {
  const { hostname, port, protocol } = new URL(url);
  return { host: plain(hostname), port: Number(port || (protocol === "https:" ? 443 : 80)) };
}

/** None if the name is unknown, or the daemon may not resolve it: then it cannot connect either. */
async function addressesOf(name: string): Promise<string[]> {
  try {
    const { lookup } = await import("node:dns/promises");
    return (await lookup(name, { all: true })).map(({ address }) => address);
  } catch {
    return [];
  }
}

/** Addresses in the form of net permissions. */
import { MosaicError } from "../base/errors.ts";
import { absolutePath } from "./find_option.ts";
import type { Permissions } from "./permissions.ts";

/** A Unix socket needs a net permission and, being a file, read and write permissions. */
export interface AddressGrant {
  net: string[];
  socket: string | undefined;
}

/**
 * @param given `HOST:PORT`, optionally after `http://` or `https://`, or `unix:PATH` @throws
 * MosaicError `invalid_argument`
 *   naming `option`.
 */
export function addressGrant(given: string, option: string, cwd: string): AddressGrant {
  const text = given.replace(
    /^(https?):\/\/([^/]+)\/?$/,
    (_, scheme, host) => /:\d+$/.test(host) ? host : `${host}:${scheme === "https" ? 443 : 80}`,
  );
  if (text.startsWith("unix:")) {
    const socket = absolutePath(text.slice("unix:".length), cwd);
    return { net: [`unix:${socket}`], socket };
  }
  const [, host, port] = /^(\[[0-9a-fA-F:.]+\]|[^:[\]/\s,]+):(\d{1,5})$/.exec(text) ?? [];
  // The runtime panics at a larger port.
  if (host === undefined || Number(port) > 65535) {
    throw new MosaicError(
      "invalid_argument",
      `${option} "${given}" is neither HOST:PORT nor unix:PATH`,
    );
  }
  if (host === "localhost") {
    return { net: ["localhost", `127.0.0.1:${port}`, `[::1]:${port}`], socket: undefined };
  }
  return { net: [text], socket: undefined };
}

/** For an http or https URL. @throws MosaicError `invalid_argument` naming `option`. */
export function urlGrant(text: string, option: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new MosaicError("invalid_argument", `${option} "${text}" is no URL`);
  }
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
}

export function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(":"));
}

function isName(entry: string): boolean {
  return !entry.startsWith("unix:") && !entry.startsWith("[") && !/^\d+(\.\d+){3}(:|$)/.test(entry);
}

/**
 * Adds the permissions to resolve a host name (without a port) and to connect to each of its
 * addresses. @param resolve returns the addresses of a name; none if it is unknown
 */
export async function withAddresses(
  granted: Permissions,
  resolve: (name: string) => Promise<string[]>,
): Promise<Permissions> {
  if (granted.net === "all") return granted;
  const net: string[] = [];
  for (const entry of granted.net) {
    net.push(entry);
    if (!isName(entry) || !entry.includes(":")) continue;
    const [name, port] = [hostOf(entry), entry.slice(entry.lastIndexOf(":") + 1)];
    net.push(name);
    for (const address of await resolve(name)) {
      net.push(address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);
    }
  }
  return { ...granted, net: [...new Set(net)].sort() };
}

/** Addresses of listeners, as in options and daemon.json. */
import { DEFAULT_LISTEN } from "../../base/agreed.ts";
import { MosaicError } from "../../base/errors.ts";

export type ListenAddress = { type: "tcp"; host: string; port: number } | {
  type: "unix";
  path: string;
};

/**
 * @param text `HOST:PORT` (an IPv6 host in brackets) or `unix:PATH`. @throws MosaicError
 * `invalid_argument`.
 */
export function parseListen(text: string): ListenAddress {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    if (path === "") throw badAddress(text);
    return {
      type: "unix",
      path: path.startsWith("/") ? path.replace(/^\/+/, "/") : `${Deno.cwd()}/${path}`,
    };
  }
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]/\s]+):(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (match === null || port > 65535) throw badAddress(text);
  return { type: "tcp", host: match[1]!, port };
}

function badAddress(text: string): MosaicError {
  return new MosaicError("invalid_argument", `cannot listen on "${text}": it is no address`, {
    hint:
      `Give HOST:PORT (such as ${DEFAULT_LISTEN}, port 0 picks a free one) or unix:/path/to/socket.`,
  });
}

/** Whether only this machine can reach the address. */
export function isLoopback(address: ListenAddress): boolean {
  if (address.type === "unix") return true;
  const host = address.host.replace(/^\[|\]$/g, "").toLowerCase();
  return host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host) ||
    /^::ffff:127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

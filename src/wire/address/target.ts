/** Parses how a client names a daemon's API. */
import { DEFAULT_HTTP } from "../../base/agreed.ts";
import { MosaicError } from "../../base/errors.ts";
import { isLoopback, type ListenAddress, parseListen } from "./address.ts";

export interface Target {
  address: ListenAddress;
  /** From its scheme; undefined without one. */
  tls: boolean | undefined;
}

/**
 * @param text `unix:PATH`, `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`. @throws
 * MosaicError `invalid_argument`.
 */
export function parseTarget(text: string): Target {
  const [, scheme, rest] = /^(https?):\/\/([^/]+)\/?$/.exec(text) ?? [];
  try {
    if (rest === undefined) return { address: parseListen(text), tls: undefined };
    const tls = scheme === "https";
    return { address: parseListen(/:\d+$/.test(rest) ? rest : `${rest}:${tls ? 443 : 80}`), tls };
  } catch (error) {
    throw new MosaicError(
      "invalid_argument",
      `no daemon can be called at "${text}": it is no address`,
      {
        hint:
          `Give unix:/path/to/socket, HOST:PORT (such as ${DEFAULT_HTTP}), http://HOST:PORT or https://HOST:PORT.`,
        cause: error,
      },
    );
  }
}

/** Whether data sent there stays on this machine. */
export function isLoopbackTarget(target: string): boolean {
  return isLoopback(parseTarget(target).address);
}

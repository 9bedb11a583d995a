/** Where a daemon can be called. */
import { MosaicError } from "../base/errors.ts";
import { type ListenAddress, parseListen } from "./address.ts";

/** A daemon that listens on every address is reached on this machine by loopback. */
export function dialable(listen: string): string {
  return listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:");
}

/** @throws MosaicError `invalid_argument` for a target that is no address. */
export function parseTarget(target: string): ListenAddress {
  try {
    return parseListen(target);
  } catch (error) {
    throw new MosaicError("invalid_argument", `no daemon can be called at "${target}": it is no address`, {
      hint: "Give HOST:PORT (such as 127.0.0.1:50055) or unix:/path/to/socket.",
      cause: error,
    });
  }
}

/**
 * Guards what the daemon is found by and what keeps a second one away: its lock, its socket and its
 * daemon.json. Somebody may remove them (a clean-up of the directory); without the socket no new
 * proxy can deliver, and runs would never end.
 */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Held } from "./start/state_directory.ts";

const CHECK_MS = 2000;

export interface GuardedPlace {
  held: Pick<Held, "isHere" | "renew">;
  /** Listens again where a socket's file is gone. @returns their paths */
  renewSockets: () => string[];
  /** Writes daemon.json if it is missing. @returns whether it was */
  announceAgain: () => boolean;
  /** Stops the daemon: another one has its place. */
  lost: (reason: string) => void;
  log: Logger;
}

/** @returns ends it */
export function guardPlace(place: GuardedPlace): () => void {
  let trouble = "";
  const timer = setInterval(() => {
    try {
      checkPlace(place);
      trouble = "";
    } catch (error) {
      // Such as a full disk: the next check tries again.
      if (messageOf(error) !== trouble) {
        place.log.error({ error: messageOf(error) }, "the daemon's files cannot be restored");
      }
      trouble = messageOf(error);
    }
  }, CHECK_MS);
  return () => clearInterval(timer);
}

/** One check. */
export function checkPlace({ held, renewSockets, announceAgain, lost, log }: GuardedPlace): void {
  if (!held.isHere()) {
    return lost("the state directory was removed or replaced while the daemon used it");
  }
  if (!held.renew()) {
    return lost("another daemon has locked the state directory, after its lock file was removed");
  }
  for (const socket of renewSockets()) {
    log.warn({ socket }, "somebody has removed the daemon's socket; it listens again");
  }
  if (announceAgain()) log.warn("somebody has removed daemon.json; it is written again");
}

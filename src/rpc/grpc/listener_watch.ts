/**
 * If a listener of the runtime has no file descriptor for a connection, it never accepts one again,
 * without any error. The watch detects this by the kernel's count of waiting connections, and binds
 * the listener again.
 */
import type { Logger } from "../../base/log.ts";
import { messageOf } from "../../base/errors.ts";
import type { FileDescriptors } from "../../os/processes/descriptors.ts";
import { readSocketTables } from "../../os/host/socket_owners.ts";

const POLL_MS = 1000;
/** Consecutive polls that find connections waiting, and none accepted in between. */
const POLLS = 4;
/** The tables are long, so while nothing is suspected they are read only at every so many polls. */
const CALM_POLLS = 10;
/** State "listening" in /proc/net/tcp. */
const LISTEN = "0A";

/**
 * Connections to a TCP port that wait to be accepted. @param tables text of /proc/net/tcp and
 * /proc/net/tcp6
 */
function waitingConnections(port: number, tables: string): number {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  let found = 0;
  for (const line of tables.split("\n")) {
    const [, local, , state, queues] = line.trim().split(/\s+/);
    if (state === LISTEN && local?.endsWith(`:${wanted}`)) {
      found += Number.parseInt(queues!.split(":")[1]!, 16);
    }
  }
  return found;
}

export interface ListenerWatchOptions {
  port: number;
  /** Number of accepted connections so far. */
  accepted: () => number;
  /** Closes the listener, if it is still open, and listens on the port again. */
  relisten: () => Promise<void>;
  log: Logger;
  descriptors: FileDescriptors;
  /**
   * How many connections wait, by the kernel's tables. @throws when no descriptor is left to read
   * them
   */
  waiting?: (port: number) => number | Promise<number>;
  pollMs?: number;
}

export interface ListenerWatch {
  listening(): boolean;
  /** Resolves when the current poll has ended; no further one begins. */
  stop(): Promise<void>;
}

export function watchListener(options: ListenerWatchOptions): ListenerWatch {
  const { port, accepted, relisten, log, descriptors, waiting = waitingNow, pollMs = POLL_MS } =
    options;
  let stuck = 0;
  let acceptedBefore = -1;
  let calm = 0;
  let listening = true;
  let stopped = false;
  /**
   * Connections wait at several polls in a row, and none was accepted meanwhile: a busy listener
   * accepts some.
   */
  const isDead = async (): Promise<boolean> => {
    const idle = accepted() === acceptedBefore;
    acceptedBefore = accepted();
    if (!idle) stuck = 0;
    if (stuck === 0 && calm-- > 0) return false;
    calm = CALM_POLLS - 1;
    try {
      stuck = await waiting(port) === 0 ? 0 : stuck + 1;
    } catch {
      // Probably no descriptor is left: a later poll reads the tables.
    }
    return stuck >= POLLS;
  };
  const poll = async (): Promise<void> => {
    if (descriptors.short) {
      // A shortage kills a listener: the first poll afterwards reads the tables.
      calm = 0;
      return;
    }
    if (listening) {
      if (!await isDead() || stopped) return;
      stuck = 0;
      listening = false;
      log.error({ port }, "connections are no longer accepted; listening on the port again");
    }
    try {
      await relisten();
      listening = true;
      log.warn({ port }, "listening again");
    } catch (error) {
      log.error({ port, error: messageOf(error) }, "cannot listen on the port yet; trying again");
    }
  };
  let polling: Promise<void> | undefined;
  const timer = setInterval(() => {
    polling ??= poll().finally(() => polling = undefined);
  }, pollMs);
  return {
    listening: () => listening,
    async stop() {
      stopped = true;
      clearInterval(timer);
      await polling;
    },
  };
}

const waitingNow = async (port: number) => waitingConnections(port, await readSocketTables());

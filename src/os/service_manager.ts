/**
 * Tells a service manager (systemd, Type=notify) that the daemon is ready, stopping, and still alive, by the protocol of
 * sd_notify(3): datagrams to the Unix socket that $NOTIFY_SOCKET names.
 */
import { messageOf } from "../base/errors.ts";
import { removeIfThere } from "./files.ts";
import type { Logger } from "../base/log.ts";

export interface ServiceManager {
  /** Somebody looks after the daemon, and starts it again when it leaves. */
  readonly present: boolean;
  ready(status: string): Promise<void>;
  stopping(): Promise<void>;
  /** Sends the watchdog's sign of life at half of $WATCHDOG_USEC, as long as `alive` says so. */
  keepAlive(alive: () => boolean): void;
  close(): void;
}

/**
 * Without $NOTIFY_SOCKET nothing is sent.
 *
 * @param env reads one variable
 * @param ownPath where this end of the socket may be
 */
export function serviceManager(
  env: (name: string) => string | undefined,
  log: Logger,
  ownPath: string,
): ServiceManager {
  const address = env("NOTIFY_SOCKET");
  let socket: Deno.DatagramConn | undefined;
  let timer: ReturnType<typeof setInterval> | undefined;
  if (address !== undefined && address !== "") {
    try {
      removeIfThere(ownPath);
      socket = Deno.listenDatagram({ transport: "unixpacket", path: ownPath });
    } catch (error) {
      log.warn({ error: messageOf(error) }, "the service manager cannot be told of the daemon's state");
    }
  }
  const send = async (text: string) => {
    if (socket === undefined) return;
    try {
      // An abstract address is written with "@" in the variable and with a NUL on the wire.
      const path = address!.replace(/^@/, "\0");
      await socket.send(new TextEncoder().encode(text), { transport: "unixpacket", path });
    } catch (error) {
      log.warn({ error: messageOf(error), text }, "the service manager did not take a message");
    }
  };
  return {
    present: socket !== undefined,
    ready: (status) => send(`READY=1\nMAINPID=${Deno.pid}\nSTATUS=${status}`),
    stopping: () => send("STOPPING=1"),
    keepAlive(alive) {
      const periodUs = Number(env("WATCHDOG_USEC"));
      if (socket === undefined || !(periodUs > 0)) return;
      timer = setInterval(() => {
        if (alive()) void send("WATCHDOG=1");
      }, periodUs / 2000);
    },
    close() {
      clearInterval(timer);
      socket?.close();
      if (socket !== undefined) removeIfThere(ownPath);
    },
  };
}

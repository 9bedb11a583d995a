/**
 * Notifies a service manager (systemd, Type=notify) that the daemon is ready, stopping or alive, by
 * the sd_notify(3) protocol: datagrams to the Unix socket $NOTIFY_SOCKET.
 */
import { messageOf } from "../../base/errors.ts";
import { removeIfThere } from "./files.ts";
import type { Logger } from "../../base/log.ts";

export interface ServiceManager {
  /** A service manager supervises the daemon, and starts it again when it exits. */
  readonly present: boolean;
  ready(status: string): Promise<void>;
  stopping(): Promise<void>;
  /** Sends watchdog heartbeats every half of $WATCHDOG_USEC while `alive` returns true. */
  keepAlive(alive: () => boolean): void;
  close(): void;
}

/**
 * Without $NOTIFY_SOCKET it sends nothing.
 *
 * @param env reads one variable
 * @param ownPath path for this end of the socket
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
      log.warn({ error: messageOf(error) }, "cannot notify the service manager");
    }
  }
  const send = async (text: string) => {
    if (socket === undefined) return;
    try {
      // An abstract address has "@" in the variable and NUL on the wire.
      const path = address!.replace(/^@/, "\0");
      await socket.send(new TextEncoder().encode(text), { transport: "unixpacket", path });
    } catch (error) {
      log.warn({ error: messageOf(error), text }, "cannot send a message to the service manager");
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

/**
 * A listener of the runtime that finds no file descriptor for a connection accepts none ever after, without a word. This
 * one is noticed by the kernel's count of connections that nobody takes, and bound anew.
 */
import type { Logger } from "../../base/log.ts";
import { messageOf } from "../../base/errors.ts";
import type { FileDescriptors } from "../../os/descriptors.ts";
import { askShell } from "../../os/shell.ts";
import { isShortage } from "../../os/shortage.ts";

const LOOK_MS = 1000;
/** So many looks in a row that find connections waiting; a busy daemon takes them in between. */
const LOOKS = 4;
/** A look that takes a shell comes with every so many of the others, unless the one before has found something. */
const SHELL_EVERY = 5;
/** State "listening" in /proc/net/tcp. */
const LISTEN = "0A";
const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];

/** The kernel's tables of TCP sockets. */
interface Sockets {
  text: string;
  /** The runtime may not read them; a shell did. */
  byShell: boolean;
}

/** @throws when no descriptor is left to look. */
function sockets(): Sockets {
  let text = "";
  for (const path of TABLES) {
    try {
      text += Deno.readTextFileSync(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) return { text: readByShell(), byShell: true };
      if (isShortage(error)) throw error;
      // No such protocol.
    }
  }
  return { text, byShell: false };
}

function readByShell(): string {
  return askShell(
    'for f; do while read -r l; do printf "%s\\n" "$l"; done <"$f"; done 2>/dev/null; :',
    "sh",
    ...TABLES,
  ) ??
    "";
}

/** Connections to a TCP port that wait to be accepted. @param tables text of /proc/net/tcp and /proc/net/tcp6 */
export function waitingConnections(port: number, tables: string): number {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  let found = 0;
  for (const line of tables.split("\n")) {
    const [, local, , state, queues] = line.trim().split(/\s+/);
    if (state === LISTEN && local?.endsWith(`:${wanted}`)) found += Number.parseInt(queues!.split(":")[1]!, 16);
  }
  return found;
}

/** @param relisten gives the port up, where it still has it, and listens on it again @returns ends the watch */
export function watchListener(
  port: number,
  relisten: () => Promise<void>,
  log: Logger,
  descriptors: FileDescriptors,
): () => void {
  let stuck = 0;
  let byShell = false;
  let ticks = 0;
  let state: "listening" | "due" | "binding" = "listening";
  const isStuck = (): boolean => {
    ticks++;
    if (byShell && stuck === 0 && ticks % SHELL_EVERY !== 0) return false;
    try {
      const seen = sockets();
      byShell = seen.byShell;
      stuck = waitingConnections(port, seen.text) > 0 ? stuck + 1 : 0;
    } catch (error) {
      // Looked at when that is over.
      if (!isShortage(error)) throw error;
    }
    return stuck >= LOOKS;
  };
  const timer = setInterval(async () => {
    if (state === "binding" || descriptors.short) return;
    if (state === "listening") {
      if (!isStuck()) return;
      stuck = 0;
      log.error({ port }, "connections are accepted no longer: the port is listened on anew");
    }
    state = "binding";
    try {
      await relisten();
      state = "listening";
      log.warn({ port }, "listening again");
    } catch (error) {
      state = "due";
      log.error({ port, error: messageOf(error) }, "the port cannot be listened on again for now");
    }
  }, LOOK_MS);
  return () => clearInterval(timer);
}

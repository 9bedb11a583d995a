/**
 * A listener of the runtime that finds no file descriptor for a connection accepts none ever after, without a word. This
 * one is noticed by the kernel's count of connections that nobody takes, and bound anew.
 */
import type { Logger } from "../log.ts";
import { messageOf } from "../errors.ts";
import { lacksDescriptors } from "../process/trouble.ts";

const LOOK_MS = 1000;
/** So many looks in a row that find connections waiting; a busy daemon takes them in between. */
const LOOKS = 4;
/** State "listening" in /proc/net/tcp. */
const LISTEN = "0A";

/**
 * Connections to a TCP port that wait to be accepted; undefined where the kernel does not say.
 *
 * @throws when no descriptor is left to look.
 */
export function waitingConnections(port: number, tables = ["/proc/net/tcp", "/proc/net/tcp6"]): number | undefined {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  let found: number | undefined;
  for (const path of tables) {
    let text: string;
    try {
      text = Deno.readTextFileSync(path);
    } catch (error) {
      if (lacksDescriptors(error)) throw error;
      // No such protocol, or not permitted.
      continue;
    }
    for (const line of text.split("\n")) {
      const [, local, , state, queues] = line.trim().split(/\s+/);
      if (state !== LISTEN || !local?.endsWith(`:${wanted}`)) continue;
      found = (found ?? 0) + Number.parseInt(queues!.split(":")[1]!, 16);
    }
  }
  return found;
}

/** @param relisten gives the port up, where it still has it, and listens on it again @returns ends the watch */
export function watchListener(port: number, relisten: () => Promise<void>, log: Logger): () => void {
  let stuck = 0;
  let lacking = false;
  const look = (): boolean => {
    try {
      stuck = (waitingConnections(port) ?? 0) > 0 ? stuck + 1 : 0;
      if (lacking) log.warn("there are file descriptors again");
      lacking = false;
    } catch (error) {
      if (!lacking) log.error({ error: messageOf(error) }, "no file descriptor is left: connections and starts wait");
      lacking = true;
    }
    return !lacking && stuck >= LOOKS;
  };
  let state: "listening" | "due" | "binding" = "listening";
  const timer = setInterval(async () => {
    if (state === "binding") return;
    if (state === "listening") {
      if (!look()) return;
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

/** A daemon that listens on every address is reached on this machine by loopback. */
export function dialable(listen: string): string {
  return listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:");
}

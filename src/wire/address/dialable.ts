/** On the same machine, a daemon that listens on every address is reached over loopback. */
export function dialable(listen: string): string {
  return listen.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:");
}

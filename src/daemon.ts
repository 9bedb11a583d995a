/** Placeholder until its owner lands it. */
export function runDaemon(_args: string[]): Promise<number> {
  return Promise.resolve(70);
}

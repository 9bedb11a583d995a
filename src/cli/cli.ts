/** Placeholder until its owner lands it. */
export function runCli(_args: string[]): Promise<number> {
  return Promise.resolve(70);
}

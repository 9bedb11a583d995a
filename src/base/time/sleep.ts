/** Waits for a time, or yields to other work of the event loop. */

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function yieldToOthers(): Promise<void> {
  return sleep(0);
}

/** Waiting: for some time, or only until everything else that is due has had its turn on the thread. */

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function othersTurn(): Promise<void> {
  return sleep(0);
}

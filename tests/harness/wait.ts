/** Waiting on conditions: no test sleeps for luck. */

/**
 * Polls until `condition` returns something truthy, and returns that.
 * @param options.what names the condition in the error, as in "the run to be TERMINATED"
 * @param options.timeoutMs generous, because a loaded machine is no defect
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  options: { what: string; timeoutMs?: number; state?: () => unknown },
): Promise<NonNullable<T>> {
  const deadline = performance.now() + (options.timeoutMs ?? 60_000);
  for (let pause = 5;; pause = Math.min(pause * 1.5, 100)) {
    const value = await condition();
    if (value) return value as NonNullable<T>;
    if (performance.now() > deadline) {
      const state = options.state === undefined
        ? ""
        : `; it is ${JSON.stringify(await options.state())}`;
      throw new Error(`waited in vain for ${options.what}${state}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

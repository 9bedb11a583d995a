/** Repeats an operation that fails for a temporary lack (of descriptors, above all) until it does not. */
import { isShortage } from "../os/shortage.ts";
import { sleep } from "../base/sleep.ts";

const AGAIN_MS = 200;

export async function retryOnShortage<T>(operation: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await operation();
    } catch (error) {
      if (!isShortage(error)) throw error;
      await sleep(AGAIN_MS);
    }
  }
}

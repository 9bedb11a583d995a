/** Retries an operation on temporary shortage (of descriptors, above all) until it succeeds. */
import { isShortage } from "../../os/processes/shortage.ts";
import { sleep } from "../../base/time/sleep.ts";

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

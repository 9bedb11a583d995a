/** Looks that fail for want of something that will be there again (descriptors, above all) are made again. */
import { isShortage } from "../os/shortage.ts";
import { sleep } from "../base/sleep.ts";

const AGAIN_MS = 200;

export async function patiently<T>(look: () => T): Promise<T> {
  for (;;) {
    try {
      return look();
    } catch (error) {
      if (!isShortage(error)) throw error;
      await sleep(AGAIN_MS);
    }
  }
}

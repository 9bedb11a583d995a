/** Retries while records cannot be stored: their sender waits, and nothing is lost. */
import { MosaicError } from "../../base/errors.ts";
import { pause } from "../../wire/http/waiting.ts";

const RETRY_MS = 1000;

export interface StoreWait {
  signal: AbortSignal;
  /** Called once, with the reason of the first failure. */
  failed(error: MosaicError): void;
  /** Called before each further try. */
  again?(): void;
}

/**
 * Does the work, and repeats it each second while the store cannot be written. @throws the work's
 * error, if it is not `unavailable` or the signal has aborted
 */
export async function untilStored<T>(work: () => T | Promise<T>, wait: StoreWait): Promise<T> {
  for (let isFirst = true;; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code !== "unavailable") throw error;
      if (isFirst) wait.failed(error);
      await pause(RETRY_MS, wait.signal);
      if (wait.signal.aborted) throw error;
      wait.again?.();
    }
  }
}

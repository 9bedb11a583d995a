/** Retries while records cannot be stored: their sender waits, and nothing is lost. */
import { MosaicError } from "../base/errors.ts";
import { pause } from "../wire/waiting.ts";

const RETRY_MS = 1000;

export interface StoreWait {
  signal: AbortSignal;
  /** Called once, with the reason of the first failure. */
  failed(error: MosaicError): void;
  /** Called before each further try, with the reason of the last failure. */
  again?(error: MosaicError): void;
}

/**
 * Does the work, and again every second as long as the store cannot be written.
 * @param work gets the number of the try, from 1
 * @throws the work's error, if the signal has aborted or the error is not `unavailable`
 */
export async function untilStored<T>(work: (tries: number) => T | Promise<T>, wait: StoreWait): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await work(tries);
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code !== "unavailable") throw error;
      if (tries === 1) wait.failed(error);
      await pause(RETRY_MS, wait.signal);
      if (wait.signal.aborted) throw error;
      wait.again?.(error);
    }
  }
}

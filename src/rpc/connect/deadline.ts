import { MosaicError } from "../../base/errors.ts";

/** Nearly 25 days. */
export const MAX_TIMER_MS = 0x7fff_ffff;

/**
 * The deadline that a call brings with it.
 * @param text of its header `connect-timeout-ms`
 * @param onPassed called when it has passed
 * @returns ends it @throws MosaicError `invalid_argument`
 */
export function startDeadline(text: string | undefined, onPassed: (error: MosaicError) => void): () => void {
  const ms = timeoutOf(text);
  if (ms === undefined) return () => {};
  const timer = setTimeout(() => {
    onPassed(new MosaicError("deadline_exceeded", `the call took longer than its ${ms} ms`));
  }, ms);
  return () => clearTimeout(timer);
}

function timeoutOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,10}$/.test(text)) {
    throw new MosaicError("invalid_argument", `connect-timeout-ms is "${text}"; it must be a whole number`);
  }
  const ms = Number(text);
  // Longer than the runtime's timers can wait is as good as for ever.
  return ms > MAX_TIMER_MS ? undefined : ms;
}

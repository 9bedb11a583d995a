/** Ctrl-C while a verb follows a run: the verb ends, the run continues. */
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";

/**
 * Runs `body` with a signal that Ctrl-C aborts. @returns the body's exit code, or 130 if
 * interrupted @param left message printed on interruption: what continues; "": none
 */
export async function interruptible(
  context: Context,
  left: string,
  body: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const controller = new AbortController();
  const remove = context.onInterrupt(() => controller.abort());
  try {
    const code = await body(controller.signal);
    if (!controller.signal.aborted) return code;
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    remove();
  }
  if (left !== "") context.err.write(`\nmosaic: ${left}\n`);
  return EXIT.interrupted;
}

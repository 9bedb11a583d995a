/** Ctrl-C while a verb follows a run: the verb ends, the run does not. */
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";

/**
 * Runs `body` with a signal that Ctrl-C aborts. Gives the body's exit code, or 130 when it was interrupted; then
 * `left` says what goes on.
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

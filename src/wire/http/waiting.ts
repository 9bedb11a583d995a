/**
 * Waits that do not leak: every wait ends with its signal, and leaves neither timer nor listener
 * behind.
 */

/** Resolves after `ms` milliseconds, or at once when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** Resolves when the first of the waits does, and ends the others. */
export async function firstOf(
  signal: AbortSignal,
  ...waits: ((signal: AbortSignal) => Promise<void>)[]
): Promise<void> {
  const others = new AbortController();
  const abort = () => others.abort();
  if (signal.aborted) return;
  signal.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race(waits.map((wait) => wait(others.signal)));
  } finally {
    signal.removeEventListener("abort", abort);
    others.abort();
  }
}

export interface CombinedSignal extends Disposable {
  signal: AbortSignal;
}

/**
 * A signal that aborts with the first of the given ones. Disposing it removes its listeners from
 * them: `AbortSignal.any` leaves an entry at a long-lived signal for each signal made from it.
 */
export function anyOf(...sources: AbortSignal[]): CombinedSignal {
  const combined = new AbortController();
  const abort = () => combined.abort(sources.find(({ aborted }) => aborted)?.reason);
  for (const source of sources) source.addEventListener("abort", abort, { once: true });
  if (sources.some(({ aborted }) => aborted)) abort();
  return {
    signal: combined.signal,
    [Symbol.dispose]: () => sources.forEach((source) => source.removeEventListener("abort", abort)),
  };
}

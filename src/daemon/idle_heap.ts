/**
 * Frees what the start and earlier load have left in V8's heap. V8 collects only when a program
 * allocates: an idle daemon would keep garbage for days.
 */

const POLL_MS = 5000;
/** A hundredth of a core. */
const QUIET_MS = POLL_MS / 100;
/** Processor time after which a collection is worth it. The start alone takes more. */
const WORK_MS = 1000;
/** A collection takes some 3 ms for each MiB in use, and blocks all other work. */
const LARGEST_BYTES = 48 << 20;

export interface HeapState {
  /** Processor time in the last interval. */
  usedMs: number;
  /** Processor time since the last collection, including the interval. */
  workMs: number;
  heapBytes: number;
}

export function mayCollect({ usedMs, workMs, heapBytes }: HeapState): boolean {
  return usedMs < QUIET_MS && workMs >= WORK_MS && heapBytes <= LARGEST_BYTES;
}

/** @param collect V8's own, if the runtime was started with `--expose-gc` @returns ends it */
export function startIdleHeap(
  collect = (globalThis as { gc?: (options: object) => void }).gc,
): () => void {
  if (collect === undefined) return () => {};
  let collectedAt = -WORK_MS;
  // Includes the start. Asking for processor time now would load Node's modules before the daemon
  // is ready.
  let before = 0;
  const timer = setInterval(() => {
    const now = spentMs();
    const state = {
      usedMs: now - before,
      workMs: now - collectedAt,
      heapBytes: Deno.memoryUsage().heapUsed,
    };
    before = now;
    if (!mayCollect(state)) return;
    collect({ type: "major", execution: "sync", flavor: "last-resort" });
    collectedAt = before = spentMs();
  }, POLL_MS);
  return () => clearInterval(timer);
}

function spentMs(): number {
  // deno-lint-ignore no-process-global
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

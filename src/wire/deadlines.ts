/**
 * Deadlines of a client's calls, without `setTimeout`, whose first use loads Node's timers: 8 ms
 * and 4 MiB in each command. The runtime's own timer cannot be stopped, so one timer serves all
 * calls until it is due. It does not keep the process alive; calls do.
 */
interface Deadline {
  /** By `performance.now()`. */
  at: number;
  act: () => void;
}

const open = new Set<Deadline>();
let alarmAt = Infinity;

/** Calls `act` after so many milliseconds. @returns cancels it */
export function atDeadline(ms: number, act: () => void): () => void {
  const deadline = { at: performance.now() + ms, act };
  open.add(deadline);
  arm(deadline.at);
  return () => void open.delete(deadline);
}

function arm(at: number): void {
  if (at >= alarmAt) return;
  alarmAt = at;
  AbortSignal.timeout(Math.max(0, Math.ceil(at - performance.now()))).addEventListener(
    "abort",
    () => {
      if (alarmAt === at) alarmAt = Infinity;
      const now = performance.now();
      for (const deadline of open) {
        if (deadline.at > now) continue;
        open.delete(deadline);
        deadline.act();
      }
      arm(Math.min(...[...open].map((deadline) => deadline.at)));
    },
  );
}

/** How long the proxy waits for its worker to end. */

/** Between SIGTERM and SIGKILL where no daemon names a grace period: after a signal to the proxy, or when the run is over. */
export const GRACE_S = 5;

/** After SIGKILL: a process that the kernel does not release (a hung disk) is not waited for longer. */
export const KILL_WAIT_MS = 30_000;

/** After a signal to the proxy and the worker's end, delivery continues for so long; the rest is left to another proxy. */
export const LEAVE_AFTER_MS = 10_000;

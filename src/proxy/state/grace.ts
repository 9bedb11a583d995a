/** How long the proxy waits for its worker to end. */

/**
 * Time after SIGKILL: a process that the kernel does not release (a hung disk) is not waited for
 * longer.
 */
export const KILL_WAIT_MS = 30_000;

/**
 * After a signal to the proxy and the worker's end, delivery continues this long; another proxy
 * delivers the rest.
 */
export const LEAVE_AFTER_MS = 10_000;

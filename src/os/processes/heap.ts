/**
 * V8's garbage collection in all processes of mosaic. A daemon with many readers allocates hundreds
 * of megabytes of short-lived buffers per second (one per DATA frame). By default V8 collects the
 * young generation after 16 MiB and the old one when the heap has doubled. With earlier collection
 * a daemon with twenty live readers uses 210 MiB instead of 310, at the same rate.
 *
 * - Young generation: 4 MiB instead of 16. If it is smaller, short-lived buffers reach the old
 *   generation.
 * - Old generation: collected when it has grown by half. A lower factor costs CPU time and saves
 *   little.
 * - On demand: an idle daemon collects by itself (src/daemon/idle_heap.ts), which V8 does not offer
 *   without `--expose-gc`.
 */
export const V8_FLAGS = "--v8-flags=--max-semi-space-size=4,--heap-growing-percent=50,--expose-gc";

/**
 * The same for the commands of a client, which end before optimised code pays: V8's optimising
 * compilers alone take 3 MiB of a `mosaic list`. Commands that print a hundred thousand steps are
 * still optimised, a little later.
 */
export const CLIENT_V8_FLAGS = V8_FLAGS +
  ",--invocation-count-for-maglev=20000,--invocation-count-for-maglev-osr=3000" +
  ",--invocation-count-for-turbofan=100000";

/**
 * How V8 keeps house in every process of mosaic. A daemon that serves many readers makes hundreds of megabytes of
 * short-lived buffers a second (each DATA frame of each connection is one), and by default V8 lets them lie: young ones
 * until 16 MiB of objects are full, older ones until the heap has doubled. Collected sooner, a daemon with twenty live
 * readers has 210 MiB instead of 310, at the same rate.
 *
 * - The young generation has 4 MiB instead of 16. Smaller still, buffers grow old before they die.
 * - The old one is collected once it has grown by half. Below that it costs processor time and saves little.
 */
export const V8_FLAGS = "--v8-flags=--max-semi-space-size=4,--heap-growing-percent=50";

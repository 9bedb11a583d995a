/**
 * What several parts must agree on: each value once, with its unit. A part that needs one of them
 * imports it from here.
 */

/** Port of the page and the API (`--http`). */
export const HTTP_PORT = 8055;
/** Port of gRPC for the original's clients (`--listen`); the original's own. */
export const GRPC_PORT = 50055;
export const LOOPBACK = "127.0.0.1";
/**
 * Where a daemon listens, and where a proxy on the same host looks for it, if no option says
 * otherwise.
 */
export const DEFAULT_HTTP = `${LOOPBACK}:${HTTP_PORT}`;
export const DEFAULT_LISTEN = `${LOOPBACK}:${GRPC_PORT}`;

/** Directory in which all daemons of a host lock the GPUs that they give out (`--gpu-locks`). */
export const GPU_LOCKS = "/tmp/mosaic-gpus";

/** Seconds between SIGTERM and SIGKILL for a worker whose config names no grace period. */
export const GRACE_S = 5;
/**
 * Seconds between two heartbeats of a proxy that has nothing else to send; half of the least
 * heartbeat timeout at most.
 */
export const HEARTBEAT_S = 60;
/** Unacknowledged bytes of one proxy before the daemon names its own window (`--ingest-window`). */
export const FIRST_WINDOW_BYTES = 8 << 20;

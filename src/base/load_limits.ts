/**
 * Limits that the daemon enforces: command-line option and default of each.
 * docs/reference/configuration.md has the table of all limits; a test compares it with this one.
 */
import { MosaicError } from "./errors.ts";

export const BOUNDS = {
  /** Queued runs. */
  maxQueue: { option: "--max-queue", standard: 10_000 },
  /** Submissions per second, on average. */
  submitRate: { option: "--submit-rate", standard: 100 },
  /** Submissions in a burst. */
  submitBurst: { option: "--submit-burst", standard: 2000 },
  /** Open gRPC streams, without those of proxies. */
  maxStreams: { option: "--max-streams", standard: 10_000 },
  /** Open streams per connection. */
  maxStreamsPerConnection: { option: "--max-streams-per-connection", standard: 1000 },
  /** Open streams per run. */
  maxStreamsPerRun: { option: "--max-streams-per-run", standard: 1000 },
  /** Live connections of the page. */
  maxPageStreams: { option: "--max-page-streams", standard: 128 },
  /** gRPC connections, without those of proxies. */
  maxConnections: { option: "--max-connections", standard: 2048 },
  /** Bytes per request, except from proxies. */
  maxMessageBytes: { option: "--max-message", standard: 64 << 20 },
  /** Lines per second sent to one reader of a log. */
  logLines: { option: "--log-lines", standard: 2000 },
  /** Newest steps per run kept in memory. */
  ringSteps: { option: "--ring-steps", standard: 4096 },
  /** Memory for the newest records of all runs; at most an eighth of it per run. */
  ringBytes: { option: "--ring-memory", standard: 32 << 20 },
  /** Unacknowledged journal bytes per proxy. */
  windowBytes: { option: "--ingest-window", standard: 4 << 20 },
  /** Bytes of the files of one attempt that its proxy uploads. */
  maxUploadBytes: { option: "--max-upload", standard: 100 * 2 ** 30 },
  /** Bytes a second of one such attempt. */
  uploadRateBytes: { option: "--upload-rate", standard: 100 << 20 },
} as const;

export type BoundName = keyof typeof BOUNDS;
export type Bounds = Record<BoundName, number>;

export const STANDARD_BOUNDS = Object.fromEntries(
  Object.entries(BOUNDS).map(([name, { standard }]) => [name, standard]),
) as Bounds;

/**
 * The error for a reached limit. The message names the quantity, the limit and its option.
 *
 * @param what such as "10 streams are open"
 * @param advice what the caller can do, as the beginning of a sentence
 */
export function boundReached(
  name: BoundName,
  bound: number,
  what: string,
  advice: string,
  retryAfterMs?: number,
): MosaicError {
  const { option } = BOUNDS[name];
  return new MosaicError("resource_exhausted", `${what}; the limit is ${bound} (${option})`, {
    hint: `${advice}, or start the daemon with a higher ${option}.`,
    retryAfterMs,
  });
}

/**
 * Bounds that a daemon holds everybody to: what each is called on the command line, and what it is unless somebody says
 * otherwise. docs/configuration.md has the table of all bounds; a test holds it against this one.
 */
import { MosaicError } from "./errors.ts";

export const BOUNDS = {
  /** Runs that may wait. */
  maxQueue: { option: "--max-queue", standard: 10_000 },
  /** Submissions a second, over time. */
  submitRate: { option: "--submit-rate", standard: 100 },
  /** Submissions at once, after a time without any. */
  submitBurst: { option: "--submit-burst", standard: 2000 },
  /** gRPC streams open at one time, beside those of proxies. */
  maxStreams: { option: "--max-streams", standard: 10_000 },
  /** Of them, those of one connection. */
  maxStreamsPerConnection: { option: "--max-streams-per-connection", standard: 1000 },
  /** Of them, those that follow one run. */
  maxStreamsPerRun: { option: "--max-streams-per-run", standard: 1000 },
  /** Live connections of the page. */
  maxPageStreams: { option: "--max-page-streams", standard: 128 },
  /** gRPC connections, beside those of proxies. */
  maxConnections: { option: "--max-connections", standard: 2048 },
  /** Bytes of one request, beside those of proxies. */
  maxMessageBytes: { option: "--max-message", standard: 64 << 20 },
  /** Lines a second that one follower of a log gets. */
  logLines: { option: "--log-lines", standard: 2000 },
  /** Steps of a run that are kept in memory for readers near its head. */
  ringSteps: { option: "--ring-steps", standard: 4096 },
  /** Memory of all runs' newest records together; one run has at most an eighth of it. */
  ringBytes: { option: "--ring-memory", standard: 32 << 20 },
  /** Journal bytes that one proxy may have under way without an acknowledgement. */
  windowBytes: { option: "--ingest-window", standard: 4 << 20 },
} as const;

export type BoundName = keyof typeof BOUNDS;
export type Bounds = Record<BoundName, number>;

export const STANDARD_BOUNDS = Object.fromEntries(
  Object.entries(BOUNDS).map(([name, { standard }]) => [name, standard]),
) as Bounds;

/**
 * A bound was reached. All of them say the same: what is too much, the bound, its option.
 *
 * @param what such as "10 streams are open"
 * @param advice what to do instead of asking for more, as the beginning of a sentence
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

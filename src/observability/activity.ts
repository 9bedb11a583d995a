/**
 * Counters of the daemon's activity, in memory, so that counting never blocks.
 * src/observability/daemon_metrics.ts turns them into metrics on request.
 */
import { RUN_STATES } from "../registry/lifecycle/lifecycle.ts";
import { EventLoopDelay } from "./event_loop.ts";
import { FAILURE_CLASSES } from "./failure_class.ts";
import { Histogram } from "./histogram.ts";
import { Subscribers } from "./subscribers.ts";

/** A counter per key. Keys come from closed lists. */
export class Counts {
  readonly #counts = new Map<string, number>();

  /**
   * @param known keys reported as 0 from the start: a series that appears with its first event
   * shows no rate
   */
  constructor(known: readonly string[] = []) {
    for (const key of known) this.#counts.set(key, 0);
  }
  add(key: string, count = 1): void {
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
  }
  entries(): [string, number][] {
    return [...this.#counts];
  }
}

/** A delivering proxy. */
export interface ConnectedProxy {
  /** Journal size as last reported by the proxy. */
  journalSize: number;
  /** Stored journal bytes. */
  position: number;
}

const WEBHOOK_RESULTS = ["delivered", "retried", "given_up", "refused", "not_encodable"] as const;
export type WebhookResult = typeof WEBHOOK_RESULTS[number];

export class Activity {
  /** Seconds from a submission's arrival to its answer. */
  readonly submitSeconds = new Histogram([
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    10,
  ]);
  readonly submissions = new Counts(["accepted", "running_already", "rejected"]);
  /** Seconds from INIT to the decision to start. */
  readonly queueSeconds = new Histogram([
    0.05,
    0.25,
    1,
    5,
    15,
    60,
    300,
    900,
    3600,
    14_400,
    43_200,
    86_400,
  ]);
  /** Seconds from that decision to the proxy's registration. */
  readonly startSeconds = new Histogram([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]);
  /** Seconds from registration to the worker's first record. */
  readonly firstRecordSeconds = new Histogram([0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300]);
  /** By the state entered. */
  readonly transitions = new Counts(RUN_STATES);
  /** Failed attempts by the class of their reason. */
  readonly failures = new Counts([...FAILURE_CLASSES, "other"]);
  /**
   * Seconds from a batch's arrival to its acknowledgement; its count is the number of
   * acknowledgements.
   */
  readonly ackSeconds = new Histogram([
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    10,
  ]);
  acknowledgedBytes = 0;
  malformedLines = 0;
  schemaViolations = 0;
  readonly proxies = new Set<ConnectedProxy>();
  readonly subscribers = new Subscribers();
  /** By `package.Service/Method CODE`. */
  readonly rpcCalls = new Counts();
  /** Number of closed gRPC connections. */
  closedGrpcConnections = 0;
  readonly webhooks = new Counts(WEBHOOK_RESULTS);
  readonly eventLoop = new EventLoopDelay();
}

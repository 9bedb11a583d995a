/** Counts the transitions of all runs: states entered, failure reasons, durations. */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { RunReader } from "../registry/run_reader.ts";
import type { TransitionRow } from "../registry/row_types.ts";
import { pause } from "../wire/http/waiting.ts";
import type { Activity } from "./activity.ts";
import { failureClass } from "./failure_class.ts";

const PAGE = 200;
/** Delay after a database error. */
const TROUBLE_WAIT_MS = 5000;

export class LifecycleMetrics {
  readonly #runs: RunReader;
  readonly #activity: Activity;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  readonly #following: Promise<void>;

  /** Counts from now on. */
  constructor(runs: RunReader, activity: Activity, log: Logger) {
    this.#runs = runs;
    this.#activity = activity;
    this.#log = log;
    this.#following = this.#follow(runs.transitionHead());
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#following;
  }

  async #follow(from: number): Promise<void> {
    const { signal } = this.#stop;
    for (let seq = from; !signal.aborted;) {
      try {
        const page = this.#runs.transitionsSince(seq, PAGE);
        for (const transition of page) {
          seq = transition.seq;
          this.#count(transition);
        }
        if (page.length < PAGE) await this.#runs.waitTransitionsBeyond(seq, signal);
      } catch (error) {
        this.#log.warn({ error: messageOf(error) }, "cannot count transitions; retrying");
        await pause(TROUBLE_WAIT_MS, signal);
      }
    }
  }

  #count(transition: TransitionRow): void {
    const { from, to } = transition;
    const activity = this.#activity;
    activity.transitions.add(to);
    if (to === "FAULTED") activity.failures.add(failureClass(transition.reason));
    if (from === "INIT" && to === "HANDSHAKE") {
      activity.queueSeconds.observe(this.#secondsSince("INIT", transition));
    }
    if (from === "HANDSHAKE" && to === "READY") {
      activity.startSeconds.observe(this.#secondsSince("HANDSHAKE", transition));
    }
    if (from === "READY" && to === "EXECUTING") {
      activity.firstRecordSeconds.observe(this.#secondsSince("READY", transition));
    }
  }

  /** Since the run entered the state that this transition leaves. */
  #secondsSince(state: string, transition: TransitionRow): number {
    const entered = this.#runs.transitions(transition.runId)
      .findLast((other) => other.seq < transition.seq && other.to === state);
    return entered === undefined ? 0 : (transition.at - entered.at) / 1000;
  }
}

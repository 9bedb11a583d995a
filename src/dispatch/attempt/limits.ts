/** How long a run may be silent, and how long and how far it may go. Times are milliseconds of a monotonic clock. */
import type { RunState } from "../../registry/lifecycle/lifecycle.ts";

export interface RunLimits {
  /** From the start of the proxy to its registration. */
  handshakeMs: number;
  /** Without any sign of life of the proxy or the worker; and of the worker alone, once it has sent a heartbeat. */
  heartbeatMs: number;
  /** Without any output of the worker; null: no limit. */
  stallMs: number | null;
  /** Of one attempt, pauses excluded; null: no limit. */
  maxDurationMs: number | null;
  /** Steps of one attempt; null: no limit. */
  maxSteps: number | null;
}

export type LimitReason = "handshake_timeout" | "heartbeat_timeout" | "stall_timeout" | "max_duration" | "max_steps";

/**
 * A worker that sends heartbeats may send them as seldom as it likes: only a silence that is longer than the heartbeat
 * timeout and so many times as long as its longest one before means that it hangs.
 */
const SILENCES = 3;

/**
 * What a run has used of its limits. Time spent PAUSED counts for none of them: a worker that is held cannot speak, and
 * should not lose its time.
 */
export class RunClock {
  #handshakeSince: number;
  #lastSignOfLife: number;
  #lastOutput: number;
  /** The longest time between two outputs. */
  #longestSilence = 0;
  /** The worker has sent a heartbeat of its own. */
  #workerBeats = false;
  #usedMs: number;
  #countedSince: number;
  #paused = false;

  /** @param usedMs what earlier watchers of the same attempt have counted (the daemon may have been restarted) */
  constructor(now: number, usedMs = 0) {
    this.#handshakeSince = now;
    this.#lastSignOfLife = now;
    this.#lastOutput = now;
    this.#countedSince = now;
    this.#usedMs = usedMs;
  }

  signOfLife(now: number): void {
    this.#lastSignOfLife = now;
  }

  /** Nobody listened for so long: what was said meanwhile is still to be heard, so that time is no silence. */
  unheard(ms: number, now: number): void {
    const later = (at: number) => Math.min(now, at + ms);
    this.#handshakeSince = later(this.#handshakeSince);
    this.#lastSignOfLife = later(this.#lastSignOfLife);
    this.#lastOutput = later(this.#lastOutput);
  }

  /** Milliseconds since the last sign of life, of the worker or its proxy. */
  lifelessMs(now: number): number {
    return now - this.#lastSignOfLife;
  }

  output(now: number): void {
    this.#longestSilence = Math.max(this.#longestSilence, now - this.#lastOutput);
    this.#heard(now);
  }

  /** A heartbeat was among the output. The proxy's own no longer hide that the worker is silent. */
  workerBeat(): void {
    this.#workerBeats = true;
  }

  #heard(now: number): void {
    this.#lastSignOfLife = now;
    this.#lastOutput = now;
  }

  pausedIs(paused: boolean, now: number): void {
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) {
      this.#usedMs += now - this.#countedSince;
    } else {
      this.#countedSince = now;
      this.#heard(now);
    }
  }

  /** Milliseconds since the worker's last output; 0 while it is paused. */
  silentMs(now: number): number {
    return this.#paused ? 0 : now - this.#lastOutput;
  }

  /** Milliseconds of the attempt, pauses excluded. */
  used(now: number): number {
    return this.#usedMs + (this.#paused ? 0 : now - this.#countedSince);
  }

  /** The limit that is passed, if one is. @param steps those of this attempt */
  exceeded(state: RunState, limits: RunLimits, steps: number, now: number): LimitReason | undefined {
    if (limits.maxSteps !== null && steps > limits.maxSteps) return "max_steps";
    if (this.#paused) return undefined;
    if (limits.maxDurationMs !== null && this.used(now) > limits.maxDurationMs) return "max_duration";
    if (state === "HANDSHAKE") {
      return now - this.#handshakeSince > limits.handshakeMs ? "handshake_timeout" : undefined;
    }
    const silent = now - this.#lastOutput;
    const ofWorker = this.#workerBeats && silent > Math.max(limits.heartbeatMs, SILENCES * this.#longestSilence);
    if (ofWorker || now - this.#lastSignOfLife > limits.heartbeatMs) return "heartbeat_timeout";
    if (limits.stallMs !== null && silent > limits.stallMs) return "stall_timeout";
    return undefined;
  }
}

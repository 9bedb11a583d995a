/** Limits of a run: silence, duration, steps. Times are milliseconds of a monotonic clock. */
import type { RunState } from "../../../registry/lifecycle/lifecycle.ts";

export interface RunLimits {
  /** From the start of the proxy to its registration. */
  handshakeMs: number;
  /**
   * Without any message of the proxy or output of the worker; and of the worker alone, once it has
   * sent a heartbeat.
   */
  heartbeatMs: number;
  /** Without any output of the worker; null: no limit. */
  stallMs: number | null;
  /** Of one attempt, pauses excluded; null: no limit. */
  maxDurationMs: number | null;
  /** Steps of one attempt; null: no limit. */
  maxSteps: number | null;
}

export type LimitReason =
  | "handshake_timeout"
  | "heartbeat_timeout"
  | "stall_timeout"
  | "max_duration"
  | "max_steps";

/**
 * A worker may send heartbeats at any interval: it counts as hung only after a silence longer than
 * the heartbeat timeout and this many times its longest silence before.
 */
const SILENCES = 3;

/**
 * How much of its limits a run has used. Time in PAUSED does not count, nor while an engine has
 * suspended its job: a held worker cannot print, and should not lose its time.
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
  /** By its state in the registry. */
  #pausedByState = false;
  /** By the engine that has placed it. */
  #heldByEngine = false;

  /** @param usedMs time of this attempt counted by earlier daemons */
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

  /**
   * The daemon did not read for so long: messages of that time are still unread, so it does not
   * count as silence.
   */
  unheard(ms: number, now: number): void {
    const later = (at: number) => Math.min(now, at + ms);
    this.#handshakeSince = later(this.#handshakeSince);
    this.#lastSignOfLife = later(this.#lastSignOfLife);
    this.#lastOutput = later(this.#lastOutput);
  }

  /** Milliseconds since the worker's last output or its proxy's last message. */
  lifelessMs(now: number): number {
    return now - this.#lastSignOfLife;
  }

  output(now: number): void {
    this.#longestSilence = Math.max(this.#longestSilence, now - this.#lastOutput);
    this.#heard(now);
  }

  /**
   * The output contained a heartbeat. From now on the proxy's heartbeats do not hide a silent
   * worker.
   */
  workerBeat(): void {
    this.#workerBeats = true;
  }

  #heard(now: number): void {
    this.#lastSignOfLife = now;
    this.#lastOutput = now;
  }

  pausedIs(paused: boolean, now: number): void {
    this.#set(now, () => this.#pausedByState = paused);
  }

  heldIs(held: boolean, now: number): void {
    this.#set(now, () => this.#heldByEngine = held);
  }

  get #paused(): boolean {
    return this.#pausedByState || this.#heldByEngine;
  }

  #set(now: number, change: () => void): void {
    const before = this.#paused;
    change();
    if (this.#paused === before) return;
    if (this.#paused) {
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

  /** The limit that is exceeded, if any. @param steps those of this attempt */
  exceeded(
    state: RunState,
    limits: RunLimits,
    steps: number,
    now: number,
  ): LimitReason | undefined {
    if (limits.maxSteps !== null && steps > limits.maxSteps) return "max_steps";
    if (this.#paused) return undefined;
    if (limits.maxDurationMs !== null && this.used(now) > limits.maxDurationMs) {
      return "max_duration";
    }
    if (state === "HANDSHAKE") {
      return now - this.#handshakeSince > limits.handshakeMs ? "handshake_timeout" : undefined;
    }
    const silent = now - this.#lastOutput;
    const ofWorker = this.#workerBeats &&
      silent > Math.max(limits.heartbeatMs, SILENCES * this.#longestSilence);
    if (ofWorker || now - this.#lastSignOfLife > limits.heartbeatMs) return "heartbeat_timeout";
    if (limits.stallMs !== null && silent > limits.stallMs) return "stall_timeout";
    return undefined;
  }
}

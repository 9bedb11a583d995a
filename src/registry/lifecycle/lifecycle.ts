/**
 * The lifecycle of a run as a pure function: (state, event) → next state, or an error. The registry
 * is its only caller that writes; see docs/explanation/architecture.md, invariant 1.
 */
import { MosaicError } from "../../base/errors.ts";
import {
  isEnded,
  type Outcome,
  PRUNED,
  type RunState,
} from "../../runs/fields/lifecycle_states.ts";

export {
  ENDED_STATES,
  isEnded,
  LIVE_STATES,
  type Outcome,
  PRUNED,
  RUN_STATES,
  RUNNING_STATES,
  type RunState,
} from "../../runs/fields/lifecycle_states.ts";

export type LifecycleEvent =
  | { type: "spawned" }
  | { type: "registered" }
  /** First telemetry, or a lifecycle record of the worker. */
  | { type: "active" }
  | { type: "pause"; reason: string }
  | { type: "resume" }
  | { type: "exited_ok" }
  /**
   * Any failure; `reason` is from the vocabulary in docs/reference/operations.md, such as
   * `exit_code_3`.
   */
  | { type: "failed"; reason: string }
  | { type: "cancelled"; reason: string }
  /** FAULTED → INIT: the next attempt, by the restart policy or by hand. */
  | { type: "retry"; reason: string }
  /**
   * The start was undone before the proxy registered (no free space, daemon stopped in between);
   * the attempt is the same.
   */
  | { type: "requeued"; reason: string };

export type Transition =
  | { to: RunState; attemptDelta: 0 | 1 }
  /** The event asks for the state the run is in already. */
  | { to: undefined };

const EDGES: Record<LifecycleEvent["type"], Partial<Record<RunState, RunState>>> = {
  spawned: { INIT: "HANDSHAKE" },
  registered: { HANDSHAKE: "READY" },
  active: { READY: "EXECUTING", HANDSHAKE: "EXECUTING" },
  pause: { READY: "PAUSED", EXECUTING: "PAUSED" },
  resume: { PAUSED: "EXECUTING" },
  exited_ok: {
    HANDSHAKE: "TERMINATED",
    READY: "TERMINATED",
    EXECUTING: "TERMINATED",
    PAUSED: "TERMINATED",
  },
  failed: {
    INIT: "FAULTED",
    HANDSHAKE: "FAULTED",
    READY: "FAULTED",
    EXECUTING: "FAULTED",
    PAUSED: "FAULTED",
  },
  cancelled: {
    INIT: "CANCELLED",
    HANDSHAKE: "CANCELLED",
    READY: "CANCELLED",
    EXECUTING: "CANCELLED",
    PAUSED: "CANCELLED",
  },
  retry: { FAULTED: "INIT", TERMINATED: "INIT", CANCELLED: "INIT" },
  requeued: { HANDSHAKE: "INIT" },
};

/** Events that have no effect in these states and are no error. */
const IDEMPOTENT: Record<LifecycleEvent["type"], readonly RunState[]> = {
  spawned: [],
  registered: ["READY", "EXECUTING", "PAUSED"],
  active: ["EXECUTING", "PAUSED"],
  pause: ["PAUSED"],
  resume: ["EXECUTING", "READY"],
  exited_ok: [],
  failed: [],
  cancelled: ["CANCELLED"],
  retry: ["INIT"],
  requeued: ["INIT"],
};

/**
 * The effect of `event` on a run in `state`; null is a state that cannot be read, from which a run
 * can only end.
 * @throws {MosaicError} `failed_precondition` if the transition does not exist: ended states are
 * final except for `retry`.
 */
export function transition(state: RunState | null, event: LifecycleEvent): Transition {
  if (state === null) {
    const to = EDGES[event.type].EXECUTING;
    if (to !== undefined && isEnded(to)) return { to, attemptDelta: 0 };
    throw new MosaicError(
      "failed_precondition",
      `a run whose state is damaged cannot take the event "${event.type}"`,
    );
  }
  const to = EDGES[event.type][state];
  if (to !== undefined) return { to, attemptDelta: event.type === "retry" ? 1 : 0 };
  if (IDEMPOTENT[event.type].includes(state)) return { to: undefined };
  throw new MosaicError(
    "failed_precondition",
    `a run that is ${state} cannot take the event "${event.type}"`,
  );
}

/** The outcome of an ended state; undefined while the run is live. */
export function outcomeOf(state: RunState, reason: string | null = null): Outcome | undefined {
  switch (state) {
    case "TERMINATED":
      return "succeeded";
    case "FAULTED":
      return "failed";
    case "CANCELLED":
      return reason === PRUNED ? PRUNED : "canceled";
    default:
      return undefined;
  }
}

import assert from "node:assert/strict";
import {
  ENDED_STATES,
  isEnded,
  type LifecycleEvent,
  LIVE_STATES,
  outcomeOf,
  RUN_STATES,
  type RunState,
  transition,
} from "../../../src/registry/lifecycle/lifecycle.ts";
import { MosaicError } from "../../../src/base/errors.ts";

const EVENTS: Record<LifecycleEvent["type"], LifecycleEvent> = {
  spawned: { type: "spawned" },
  registered: { type: "registered" },
  active: { type: "active" },
  pause: { type: "pause", reason: "user" },
  resume: { type: "resume" },
  exited_ok: { type: "exited_ok" },
  failed: { type: "failed", reason: "exit_code_3" },
  cancelled: { type: "cancelled", reason: "user_cancel" },
  retry: { type: "retry", reason: "user_retry" },
  requeued: { type: "requeued", reason: "no_capacity" },
};

/**
 * What each event does in each state: a state to go to, "same" (nothing happens), or "no"
 * (refused).
 */
const TABLE: Record<LifecycleEvent["type"], Record<RunState, RunState | "same" | "no">> = {
  //          INIT              HANDSHAKE                 READY                 EXECUTING                 PAUSED               ended: FAULTED, TERMINATED, CANCELLED
  spawned: row("HANDSHAKE", "no", "no", "no", "no", "no", "no", "no"),
  registered: row("no", "READY", "same", "same", "same", "no", "no", "no"),
  active: row("no", "EXECUTING", "EXECUTING", "same", "same", "no", "no", "no"),
  pause: row("no", "no", "PAUSED", "PAUSED", "same", "no", "no", "no"),
  resume: row("no", "no", "same", "same", "EXECUTING", "no", "no", "no"),
  exited_ok: row("no", "TERMINATED", "TERMINATED", "TERMINATED", "TERMINATED", "no", "no", "no"),
  failed: row("FAULTED", "FAULTED", "FAULTED", "FAULTED", "FAULTED", "no", "no", "no"),
  cancelled: row(
    "CANCELLED",
    "CANCELLED",
    "CANCELLED",
    "CANCELLED",
    "CANCELLED",
    "no",
    "no",
    "same",
  ),
  retry: row("same", "no", "no", "no", "no", "INIT", "INIT", "INIT"),
  requeued: row("same", "INIT", "no", "no", "no", "no", "no", "no"),
};

type Cell = RunState | "same" | "no";

function row(...cells: [Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell]): Record<RunState, Cell> {
  return Object.fromEntries(RUN_STATES.map((state, i) => [state, cells[i]])) as Record<
    RunState,
    Cell
  >;
}

for (
  const [type, cells] of Object.entries(TABLE) as [LifecycleEvent["type"], Record<RunState, Cell>][]
) {
  Deno.test(`lifecycle: the event "${type}" in every state`, () => {
    for (const state of RUN_STATES) {
      const expected = cells[state];
      if (expected === "no") {
        assert.throws(
          () => transition(state, EVENTS[type]),
          (error) =>
            error instanceof MosaicError && error.code === "failed_precondition" &&
            error.message.includes(state) && error.message.includes(type),
          `${type} in ${state}`,
        );
        continue;
      }
      const { to } = transition(state, EVENTS[type]);
      assert.equal(to, expected === "same" ? undefined : expected, `${type} in ${state}`);
    }
  });
}

Deno.test("lifecycle: only a retry begins another attempt", () => {
  for (const type of Object.keys(EVENTS) as LifecycleEvent["type"][]) {
    for (const state of RUN_STATES) {
      if (TABLE[type][state] === "no" || TABLE[type][state] === "same") continue;
      const next = transition(state, EVENTS[type]);
      assert.equal(
        "attemptDelta" in next && next.attemptDelta,
        type === "retry" ? 1 : 0,
        `${type} in ${state}`,
      );
    }
  }
});

Deno.test("lifecycle: ended states are final but for a retry", () => {
  for (const state of ENDED_STATES) {
    const leaving = (Object.keys(EVENTS) as LifecycleEvent["type"][]).filter((type) =>
      TABLE[type][state] in asSet(RUN_STATES)
    );
    assert.deepEqual(leaving, ["retry"], state);
  }
});

Deno.test("lifecycle: a state has an outcome exactly when it has ended", () => {
  assert.deepEqual([...LIVE_STATES, ...ENDED_STATES].sort(), [...RUN_STATES].sort());
  for (const state of RUN_STATES) {
    assert.equal(outcomeOf(state) !== undefined, isEnded(state), state);
  }
  const outcomes = ENDED_STATES.map((state) => outcomeOf(state));
  assert.deepEqual(outcomes, ["failed", "succeeded", "canceled"]);
  assert.equal(outcomeOf("CANCELLED", "pruned"), "pruned");
  assert.equal(outcomeOf("FAULTED", "pruned"), "failed");
});

function asSet(states: readonly string[]): Record<string, true> {
  return Object.fromEntries(states.map((state) => [state, true]));
}

Deno.test("lifecycle: a run whose state cannot be read can only end", () => {
  for (const [type, event] of Object.entries(EVENTS)) {
    const end = { exited_ok: "TERMINATED", failed: "FAULTED", cancelled: "CANCELLED" }[type];
    if (end === undefined) {
      assert.throws(() => transition(null, event), { code: "failed_precondition" }, type);
    } else assert.deepEqual(transition(null, event), { to: end, attemptDelta: 0 });
  }
});

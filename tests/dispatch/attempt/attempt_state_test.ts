/** The states of an attempt, as a table: state, event → state, effects. */
import assert from "node:assert/strict";
import {
  type AttemptEvent,
  type AttemptState,
  type Effect,
  next,
  type Phase,
} from "../../../src/dispatch/attempt/state/attempt_state.ts";
import { beginStop } from "../../../src/dispatch/attempt/state/worker_stop.ts";
import type { AbsenceStep, WorkerGroup } from "../../../src/dispatch/attempt/state/host.ts";
import type { ProxyLink } from "../../../src/dispatch/attempt/state/connected_proxy.ts";
import type { ExitReport } from "../../../src/registry/failure/explain.ts";

type State = AttemptState<string>;
type Event = AttemptEvent<string>;

const link: ProxyLink = {
  accompanied: () => {},
  control: () => {},
  saveCheckpoint: () => {},
  stop: () => {},
  close: () => {},
};
const report: ExitReport = {
  code: 3,
  signal: "",
  lost: false,
  finalPosition: 0,
  stderrTail: [],
  spawnError: "",
};
const oom = { limitMb: 64 };
const graceMs = 5000;

const absent = { t: "absent" } as const;
const connected = { t: "connected", session: "first", link } as const;
const running: Phase = { t: "running" };
const stopping: Phase = { t: "stopping", stop: beginStop(graceMs, 0), silent: false };
const exited: Phase = { t: "exited", report, oom: undefined, stop: undefined };
const over: Phase = { t: "ended", ended: { t: "over", report, oom: undefined } };
const at = (phase: Phase, connection: State["connection"]): State => ({ phase, connection });

const tick = (more: { now?: number; group?: WorkerGroup; limit?: string } = {}): Event => ({
  ...{ t: "tick", now: 0, group: "unknown", limit: undefined, graceMs },
  ...more,
});
const stop = (
  more: { now?: number; group?: WorkerGroup; graceMs?: number; silent?: boolean } = {},
): Event => ({
  ...{ t: "stop", now: 0, group: "alive", graceMs, silent: false },
  ...more,
});
const exit = (group: WorkerGroup): Event => ({ t: "exit", now: 0, group, report, graceMs });
const absence = (step: AbsenceStep, group: WorkerGroup = "unknown"): Event => ({
  ...{ t: "absence", now: 0, group, step, graceMs },
});

function text(effect: Effect): string {
  switch (effect.do) {
    case "signal":
      return effect.signals.join(" ");
    case "tell_proxy":
      return `tell_proxy ${effect.graceSeconds}`;
    case "fault":
    case "disconnect":
      return `${effect.do}: ${effect.reason}`;
    case "keep_proxy":
      return effect.stoppingSince === undefined ? "keep_proxy" : "keep_proxy (stopping)";
    default:
      return effect.do;
  }
}

const NEWER = "disconnect: a newer proxy of this run has connected";
const LATE = "disconnect: the exit was not reported in time";

const TABLE: [what: string, state: State, event: Event, to: string, effects: string[]][] = [
  // A proxy connects and leaves.
  [
    "the first proxy connects",
    at(running, absent),
    { t: "connected", session: "new", link },
    "running, connected",
    [],
  ],
  [
    "a newer proxy replaces the one that is connected",
    at(running, connected),
    { t: "connected", session: "new", link },
    "running, connected",
    [NEWER],
  ],
  [
    "a proxy that connects to a run under stop is told after its welcome",
    at(stopping, absent),
    { t: "connected", session: "new", link },
    "stopping, connected",
    ["tick_soon"],
  ],
  ["a proxy leaves", at(running, connected), { t: "disconnected" }, "running, absent", ["wake"]],

  // Time passes.
  [
    "nothing to do under a connected proxy",
    at(running, connected),
    tick(),
    "running, connected",
    [],
  ],
  ["without a proxy one is seen to", at(running, absent), tick(), "running, absent", [
    "keep_proxy",
  ]],
  [
    "a limit is a fault, recorded before anything is stopped",
    at(running, connected),
    tick({ limit: "max_steps" }),
    "running, connected",
    ["fault: max_steps"],
  ],
  [
    "no limit counts for a run under stop",
    at(stopping, connected),
    tick({ limit: "max_steps", group: "alive" }),
    "stopping, connected",
    ["tell_proxy 5"],
  ],
  [
    "without a proxy the daemon stops the group, and sees to a proxy that reports",
    at(stopping, absent),
    tick({ group: "alive" }),
    "stopping, absent",
    ["SIGTERM SIGCONT", "keep_proxy (stopping)"],
  ],
  [
    "before the worker is known there is nobody to signal",
    at(stopping, absent),
    tick(),
    "stopping, absent",
    ["keep_proxy (stopping)"],
  ],
  [
    "a group that lives on after the exit is stopped",
    at(exited, connected),
    tick({ group: "alive" }),
    "exited, connected",
    [
      "SIGTERM SIGCONT",
      "wake",
    ],
  ],
  ["nothing is left of the group", at(exited, absent), tick({ group: "gone" }), "exited, absent", [
    "end_rest",
  ]],
  ["an end that could not be committed is tried again", at(over, absent), tick(), "ended, absent", [
    "settle",
  ]],

  // Somebody stops the run.
  ["a stop through the proxy", at(running, connected), stop(), "stopping, connected", [
    "tell_proxy 5",
    "wake",
  ]],
  ["a stop without a proxy", at(running, absent), stop(), "stopping, absent", [
    "SIGTERM SIGCONT",
    "wake",
  ]],
  [
    "a stop of a worker on another host",
    at(running, connected),
    stop({ group: "unknown" }),
    "stopping, connected",
    ["tell_proxy 5", "wake"],
  ],
  [
    "a cancellation hurries the rest of a group that has exited",
    at({ ...exited, stop: { ...beginStop(600_000, 0), terminated: true } } as Phase, connected),
    stop({ now: 10, graceMs: 0 }),
    "exited, connected",
    ["SIGKILL", "wake"],
  ],
  ["a stop after the end changes nothing", at(over, connected), stop(), "ended, connected", [
    "wake",
  ]],

  // The exit.
  ["an exit, and nothing is left", at(running, connected), exit("gone"), "exited, connected", [
    "end_rest",
  ]],
  [
    "an exit of a worker on another host",
    at(running, connected),
    exit("unknown"),
    "exited, connected",
    ["end_rest"],
  ],
  [
    "an exit, and some of the group lives",
    at(running, connected),
    exit("alive"),
    "exited, connected",
    ["SIGTERM SIGCONT", "wake"],
  ],
  [
    "an exit that is reported again after the end",
    at(over, connected),
    exit("gone"),
    "ended, connected",
    ["settle"],
  ],
  [
    "the kernel is still ending the cgroup",
    at(exited, absent),
    { t: "rest", ended: false, oom },
    "exited, absent, out of memory",
    ["wake"],
  ],
  [
    "the cgroup is gone",
    at(exited, absent),
    { t: "rest", ended: true, oom: undefined },
    "ended, absent: exit_code 3",
    ["settle"],
  ],
  [
    "a lack of memory is remembered until the end",
    at({ ...exited, oom } as Phase, absent),
    { t: "rest", ended: true, oom: undefined },
    "ended, absent, out of memory: exit_code 3",
    ["settle"],
  ],

  // What the host says while no proxy is connected.
  ["wait", at(running, absent), absence({ do: "wait" }), "running, absent", []],
  ["a new proxy attaches", at(running, absent), absence({ do: "attach" }), "running, absent", [
    "attach",
  ]],
  [
    "nothing was started: the attempt begins anew",
    at(running, absent),
    absence({ do: "not_started" }),
    "ended, absent: not started",
    ["settle"],
  ],
  [
    "nothing was started, and the run is being stopped: it is over",
    at(stopping, absent),
    absence({ do: "not_started" }),
    "ended, absent: no report",
    ["settle"],
  ],
  [
    "nobody will report",
    at(stopping, absent),
    absence({ do: "over" }),
    "ended, absent: no report",
    ["settle"],
  ],
  [
    "no proxy survives, and the worker lives",
    at(running, absent),
    absence({ do: "fault", reason: "proxy_lost" }),
    "running, absent",
    ["fault: proxy_lost"],
  ],
  [
    "no proxy survives, and the exit is on disk",
    at(running, absent),
    absence({ do: "exited", report }, "gone"),
    "exited, absent",
    ["end_rest"],
  ],
  [
    "a proxy has connected meanwhile",
    at(running, connected),
    absence({ do: "over" }),
    "running, connected",
    [],
  ],
];

function stateText({ phase, connection }: State): string {
  const oom = phase.t === "exited"
    ? phase.oom
    : phase.t === "ended" && phase.ended.t === "over"
    ? phase.ended.oom
    : undefined;
  const where = `${phase.t}, ${connection.t}${oom === undefined ? "" : ", out of memory"}`;
  if (phase.t !== "ended") return where;
  if (phase.ended.t === "not_started") return `${where}: not started`;
  return `${where}: ${
    phase.ended.report === undefined ? "no report" : `exit_code ${phase.ended.report.code}`
  }`;
}

Deno.test("attempt: each state and event leads to one state and its effects", () => {
  for (const [what, state, event, to, effects] of TABLE) {
    const step = next(state, event);
    const found = stateText(step.state);
    // Of a state that the table names no end for, only the name counts.
    assert.equal(to.includes(":") ? found : found.split(":")[0], to, what);
    assert.deepEqual(step.effects.map(text), effects, what);
  }
});

/** Feeds events, with the time of each, and gives what was done. */
function course(state: State, events: Event[]): { state: State; done: string[] } {
  const done: string[] = [];
  for (const event of events) {
    const step = next(state, event);
    state = step.state;
    done.push(...step.effects.map(text));
  }
  return { state, done };
}

for (
  const { silent, reportMs, who } of [
    { silent: false, reportMs: 30_000, who: "a proxy" },
    { silent: true, reportMs: 5000, who: "a proxy that was silent before" },
  ]
) {
  Deno.test(`attempt: ${who} has ${reportMs / 1000} s to report the exit of a group that is gone; then it is replaced`, () => {
    const began = course(at(running, connected), [
      stop({ silent }),
      tick({ now: 100, group: "gone" }),
    ]);
    const waiting = course(began.state, [tick({ now: 100 + reportMs, group: "gone" })]);
    assert.deepEqual(waiting.done, []);
    const late = course(waiting.state, [tick({ now: 101 + reportMs, group: "gone" })]);
    assert.equal(stateText(late.state), "stopping, absent");
    assert.deepEqual(late.done, [LATE, "replace_proxy", "keep_proxy (stopping)"]);
  });
}

Deno.test("attempt: a proxy that connects to a stop under way has its own time to report", () => {
  const began = course(at(running, connected), [stop(), tick({ now: 100, group: "gone" }), {
    t: "disconnected",
  }]);
  const again = course(began.state, [{ t: "connected", session: "second", link: { ...link } }]);
  const { state } = course(again.state, [tick({ now: 40_000, group: "gone" })]);
  assert.equal(stateText(state), "stopping, connected");
  assert.equal(
    stateText(course(state, [tick({ now: 70_001, group: "gone" })]).state),
    "stopping, absent",
  );
});

Deno.test("attempt: a cancellation after a silence leaves the short time to report", () => {
  const { state } = course(at(running, connected), [
    stop({ silent: true }),
    stop({ graceMs: 1000 }),
  ]);
  assert.ok(
    state.phase.t === "stopping" && state.phase.silent && state.phase.stop.graceMs === 1000,
  );
});

Deno.test("a proxy elsewhere that does not answer a stop is taken for absent; one that speaks, or is here, is not", () => {
  const told = { ...stopping, stop: { ...stopping.stop, stopSentTo: link } } as Phase;
  const after = (silentMs: number, now: number, group: WorkerGroup) =>
    next(at(told, connected), { ...tick({ now, group }), silentMs } as Event).state.connection.t;
  assert.equal(after(16_000, graceMs + 16_000, "unknown"), "absent");
  assert.equal(after(1000, graceMs + 16_000, "unknown"), "connected");
  assert.equal(after(60_000, graceMs + 1000, "unknown"), "connected");
  assert.equal(after(60_000, graceMs + 16_000, "alive"), "connected");
});

import assert from "node:assert/strict";
import type { Effect, Event, WorkerEnd } from "../../src/proxy/state/events_and_effects.ts";
import {
  dueAt,
  initialState,
  next,
  type Settings,
  type State,
} from "../../src/proxy/state/state.ts";
import { SETTINGS } from "./inert_edges.ts";

const LEADER = { pid: 77, identity: "boot/1" };
const END: WorkerEnd = {
  exit: { code: 7, signal: "", endedAt: null, spawnError: "" },
  stderrTail: ["trouble"],
};
const LOST: WorkerEnd = { exit: undefined, stderrTail: [] };

const WORKER_STARTED: Event = { tag: "worker_started", leader: LEADER, inherited: undefined };
const CONNECTED: Event = { tag: "connected" };
const BROKEN: Event = {
  tag: "disconnected",
  failure: { code: undefined, message: "broken", announced: true },
};

function welcome(position = 0, windowBytes = 1 << 20): Event {
  return {
    tag: "welcomed",
    target: "host:1",
    positions: { stdout: position, files: 0, uploads: 0 },
    uploads: false,
    windowBytes,
    control: undefined,
  };
}

function refused(
  code: "failed_precondition" | "not_found" | "unauthenticated",
  message = "over",
  announced = true,
): Event {
  return { tag: "disconnected", failure: { code, message, announced } };
}

function batch(to: number, more: Partial<Extract<Event, { tag: "batch_sent" }>> = {}): Event {
  return {
    tag: "batch_sent",
    source: "stdout",
    to,
    lines: 4096,
    bytes: 100_000,
    steps: 5,
    eventKinds: [],
    ...more,
  };
}

function acknowledged(position: number, windowBytes = 0): Event {
  return { tag: "acknowledged", source: "stdout", position, windowBytes };
}

function caughtUp(final = false): Event {
  return { tag: "caught_up", source: "stdout", final };
}

function desired(paused: boolean, maxRateHz = 0): Event {
  return { tag: "control", desired: { paused, maxRateHz, workerHears: false } };
}

/**
 * What happens, and what the proxy does about it: the tags of its effects, logging aside, with
 * their main argument.
 */
type Row = readonly [Event, ...string[]];

/** A proxy whose clock stands at `now` until it is moved. */
class Subject {
  state: State;
  now = 0;
  effects: Effect[] = [];

  constructor(settings: Partial<Settings> = {}) {
    this.state = initialState({ ...SETTINGS, ...settings });
  }

  put(...events: Event[]): this {
    for (const event of events) {
      const before = JSON.stringify(this.state);
      const { state, effects } = next(this.state, event, this.now);
      assert.equal(JSON.stringify(this.state), before, "next changes nothing in place");
      this.state = state;
      this.effects = effects;
    }
    return this;
  }

  rows(...rows: Row[]): this {
    for (const [event, ...expected] of rows) {
      this.put(event);
      assert.deepEqual(
        this.effects.map(brief).filter((text) => text !== undefined),
        expected,
        `after ${event.tag}`,
      );
    }
    return this;
  }

  /** Lets time pass until a tick is due. */
  tick(...expected: string[]): this {
    const due = dueAt(this.state);
    assert.ok(Number.isFinite(due), "a tick is due");
    this.now = due;
    return this.rows([{ tag: "tick" }, ...expected]);
  }
}

function brief(effect: Effect): string | undefined {
  switch (effect.tag) {
    case "log":
      return undefined;
    case "send":
      return `send ${effect.message.case}`;
    case "signal_group":
      return `${effect.signal}${effect.outside ? "" : " inside"}`;
    case "end_group":
      return `end_group ${effect.graceS}`;
    case "ask_worker":
      return `ask ${effect.control}`;
    case "set_rate":
      return `set_rate ${effect.maxRateHz}`;
    case "write_record":
      return `record ${
        effect.record.paused ? "paused" : "running"
      } ${effect.record.maxRateHz} ${effect.record.pausedBy}`
        .trimEnd();
    case "read":
      return `read${effect.final ? " final" : ""}`;
    case "seek":
      return `seek ${effect.position}`;
    case "leave":
      return `leave ${effect.code} ${effect.result.type}`;
    default:
      return effect.tag;
  }
}

function log(effects: Effect[]): string[] {
  return effects.flatMap((effect) => effect.tag === "log" ? [effect.message] : []);
}

/** Its worker runs and the daemon has welcomed it; the first read is under way. */
function serving(settings: Partial<Settings> = {}): Subject {
  return new Subject(settings).put({ tag: "started" }, WORKER_STARTED, CONNECTED, welcome());
}

Deno.test("state: the life of an attempt, from the start to the acknowledged exit", () => {
  new Subject().rows(
    [{ tag: "started" }, "start_worker"],
    [WORKER_STARTED, "connect"],
    [CONNECTED, "send hello"],
    [welcome(100), "seek 100", "send control", "read"],
    [batch(100_100), "count_steps", "disarm_growth", "read"],
    [caughtUp(), "arm_growth"],
    [{ tag: "journal_grew", source: "stdout" }, "read"],
    [caughtUp(), "arm_growth"],
    [acknowledged(100_100), "read"],
    [{ tag: "worker_exited", end: END }],
    [caughtUp(), "arm_growth", "read final"],
    [batch(100_200, { bytes: 100, lines: 1 }), "count_steps", "read final"],
    [caughtUp(true)],
    [acknowledged(100_200), "send exit"],
    [{ tag: "exit_acknowledged" }, "close", "leave 7 done"],
    [{ tag: "signal" }],
  );
});

Deno.test("state: the hello names the worker, the exit what is known of its end", () => {
  const subject = new Subject().put({ tag: "started" }, WORKER_STARTED, CONNECTED);
  assert.deepEqual(subject.effects, [{
    tag: "send",
    message: { case: "hello", leader: LEADER, startsWorker: false },
  }]);
  subject.put(welcome(40), { tag: "worker_exited", end: END }, caughtUp(), caughtUp(true));
  assert.deepEqual(subject.effects, [{
    tag: "send",
    message: { case: "exit", end: END, finalPosition: 40 },
  }]);
});

Deno.test("state: a worker that is gone without a record makes the proxy leave with 71", () => {
  serving().put({ tag: "worker_exited", end: LOST }, caughtUp(), caughtUp(true))
    .rows([{ tag: "exit_acknowledged" }, "close", "leave 71 done"]);
});

Deno.test("window: nothing is read while it is full, and an acknowledgement may widen it", () => {
  const subject = new Subject().put({ tag: "started" }, WORKER_STARTED, CONNECTED);
  subject.rows(
    [welcome(0, 150_000), "seek 0", "send control", "read"],
    [batch(100_000), "count_steps", "disarm_growth", "read"],
    [batch(200_000), "count_steps", "disarm_growth"],
    [acknowledged(10_000)],
    [acknowledged(60_000), "read"],
    [batch(300_000), "count_steps", "disarm_growth"],
    [acknowledged(60_000, 1 << 20), "read"],
  );
});

Deno.test("window: a batch is a part of it, within bounds", () => {
  for (
    const [windowBytes, most] of [[1, 64 << 10], [1 << 20, 256 << 10], [0, 1 << 20], [
      1 << 30,
      1 << 20,
    ]]
  ) {
    const subject = new Subject().put(
      { tag: "started" },
      WORKER_STARTED,
      CONNECTED,
      welcome(0, windowBytes),
    );
    assert.deepEqual(subject.effects.at(-1), { tag: "read", source: "stdout", most, final: false });
  }
});

Deno.test("flush: after a small batch more is waited for, but not after the worker's end", () => {
  const small = { lines: 1, bytes: 50 };
  serving().rows([batch(50, small), "count_steps"], [{ tag: "journal_grew", source: "stdout" }])
    .tick("read");
  serving().put(batch(50, small)).rows([{ tag: "worker_exited", end: END }, "read final"]);
});

Deno.test("heartbeats: one each interval, as long as the connection is open", () => {
  const subject = serving({ heartbeatMs: 1000 }).put(caughtUp());
  subject.tick("send heartbeat").tick("send heartbeat");
  assert.equal(subject.now, 2000);
  subject.rows([BROKEN, "close", "await_daemon"]).tick("connect");
});

Deno.test("reconnection: delays double up to 2 s, and begin anew after a welcome", () => {
  const subject = new Subject().put({ tag: "started" }, WORKER_STARTED);
  const delays: number[] = [];
  for (let i = 0; i < 7; i++) {
    subject.rows([BROKEN, "close", "await_daemon"]);
    delays.push(dueAt(subject.state) - subject.now);
    subject.tick("connect");
  }
  assert.deepEqual(delays, [100, 200, 400, 800, 1600, 2000, 2000]);
  subject.put(CONNECTED, welcome(), BROKEN);
  assert.equal(dueAt(subject.state) - subject.now, 100);
});

Deno.test("reconnection: while a source cannot be read, delays double in spite of welcomes and of what is delivered", () => {
  const failure = {
    code: undefined,
    message: "Input/output error",
    announced: false,
    unreadable: true,
  } as const;
  const subject = new Subject().put({ tag: "started" }, WORKER_STARTED);
  const delays: number[] = [];
  const fail = (...before: Event[]) => {
    subject.put(CONNECTED, welcome(), ...before, { tag: "disconnected", failure });
    delays.push(dueAt(subject.state) - subject.now);
    subject.tick("connect");
  };
  for (let i = 0; i < 4; i++) fail();
  // Positions of files count from the beginning of each connection, so acknowledging them says
  // nothing of progress.
  for (let i = 0; i < 3; i++) {
    fail({ tag: "acknowledged", source: "uploads", position: 10, windowBytes: 0 });
  }
  assert.deepEqual(delays.splice(0), [100, 200, 400, 800, 1600, 2000, 2000]);
  subject.put(CONNECTED, welcome(), BROKEN);
  assert.equal(dueAt(subject.state) - subject.now, 100, "another failure is another matter");
  subject.tick("connect").put(CONNECTED, welcome());
  subject.now += 10_000;
  subject.put({ tag: "disconnected", failure });
  assert.equal(dueAt(subject.state) - subject.now, 100, "the connection has lasted");
});

Deno.test("reconnection: a daemon that announces itself is connected to at once", () => {
  const subject = serving();
  subject.rows(
    [{ tag: "daemon_announced" }],
    [BROKEN, "close", "await_daemon"],
    [{ tag: "daemon_announced" }, "connect"],
    [{ tag: "daemon_announced" }],
    [CONNECTED, "send hello"],
  );
});

Deno.test("reconnection: delivery continues where the daemon's store ends, and what is sent again is not counted again", () => {
  const subject = serving().put(batch(100_000), acknowledged(40_000), BROKEN);
  subject.tick("connect").rows(
    // What an ended connection leaves behind is nothing.
    [acknowledged(100_000)],
    [CONNECTED, "send hello"],
    [welcome(40_000), "seek 40000", "send control", "read"],
    [batch(100_000, { bytes: 60_000 }), "disarm_growth", "read"],
    [batch(160_000, { bytes: 60_000 }), "count_steps", "disarm_growth", "read"],
  );
});

Deno.test("dead connections: no welcome, no answer, an answer before the welcome", () => {
  const greeting = () => new Subject().put({ tag: "started" }, WORKER_STARTED, CONNECTED);
  const silent = greeting().tick("close", "await_daemon");
  assert.equal(silent.now, 15_000);
  greeting().rows([acknowledged(1), "close", "await_daemon"]);

  const subject = serving({ answerTimeoutMs: 1000 }).put(batch(100_000));
  subject.now = 600;
  subject.put(acknowledged(50_000), caughtUp());
  subject.tick("close", "await_daemon");
  assert.equal(subject.now, 1600, "each word of the daemon counts");

  const idle = serving({ answerTimeoutMs: 1000, heartbeatMs: 9000 }).put(
    batch(100_000),
    acknowledged(100_000),
    caughtUp(),
  );
  assert.equal(dueAt(idle.state), 9000, "nothing is unacknowledged: nothing need be said");

  const unheard = serving({ answerTimeoutMs: 1000 }).put(
    { tag: "worker_exited", end: END },
    caughtUp(),
    caughtUp(true),
  );
  unheard.tick("close", "await_daemon");
});

Deno.test("refusal: which answers end the attempt", () => {
  const protocol = 'the proxy speaks "mosaic-ingest/1.0" and the daemon "mosaic-ingest/2.0"';
  const rows: [string, Event, "ends" | "tries again"][] = [
    ["the attempt is over", refused("failed_precondition"), "ends"],
    ["there is no such run", refused("not_found"), "ends"],
    ["another daemon on that port", refused("not_found", "unknown", false), "tries again"],
    ["another protocol", refused("failed_precondition", protocol), "tries again"],
    ["a token that is not accepted", refused("unauthenticated"), "tries again"],
    ["a broken socket", BROKEN, "tries again"],
  ];
  for (const [what, event, expected] of rows) {
    const greeting: Subject = new Subject().put({ tag: "started" }, WORKER_STARTED, CONNECTED);
    for (const subject of [greeting, serving()]) {
      const effects: (string | undefined)[] = subject.put(event).effects.map(brief);
      assert.equal(effects.includes("end_group 5") ? "ends" : "tries again", expected, what);
      assert.equal(effects.includes("await_daemon") ? "tries again" : "ends", expected, what);
    }
    // Before the hello it is no answer of a daemon's.
    new Subject().put({ tag: "started" }, WORKER_STARTED).rows([event, "close", "await_daemon"]);
  }
});

Deno.test("refusal: the worker's group is ended, then the proxy leaves with 70", () => {
  serving().rows(
    [refused("failed_precondition"), "close", "end_group 5"],
    [{ tag: "worker_exited", end: END }],
    [{ tag: "signal" }, "end_group 5"],
    [{ tag: "group_ended" }, "close", "leave 70 refused"],
  );
  const withoutLeader: Event = { tag: "worker_started", leader: undefined, inherited: undefined };
  new Subject().put({ tag: "started" }, withoutLeader, CONNECTED)
    .rows([refused("not_found"), "close", "close", "leave 70 refused"]);
});

Deno.test("refusal: a worker that has ended has its status, a refused token is final after its end only", () => {
  const ended = () => serving().put({ tag: "worker_exited", end: END });
  ended().rows([refused("failed_precondition"), "close", "close", "leave 7 refused"]);

  const subject = serving({ refusedTokenTries: 2 });
  for (let i = 0; i < 5; i++) {
    subject.rows([refused("unauthenticated"), "close", "await_daemon"]).tick("connect").put(
      CONNECTED,
    );
  }
  subject.put({ tag: "worker_exited", end: END });
  subject.rows([refused("unauthenticated"), "close", "close", "leave 7 refused"]);
});

Deno.test("stop: SIGTERM, a shorter grace period, and the exit only when the whole group has ended", () => {
  serving().put(caughtUp()).rows(
    [{ tag: "stop_requested", graceS: 60 }, "end_group 60"],
    [{ tag: "stop_requested", graceS: 1 }, "end_group 1"],
    [{ tag: "worker_exited", end: END }],
    [{ tag: "group_ended" }, "read final"],
    [caughtUp(true), "send exit"],
    [{ tag: "stop_requested", graceS: 1 }],
    [{ tag: "exit_acknowledged" }, "close", "leave 7 done"],
  );
});

Deno.test("exit: what the worker has left in its group is ended first, and what that prints is read before the report", () => {
  serving().put(caughtUp()).rows(
    [{ tag: "worker_exited", end: END, rest: true }, "end_group 5"],
    [{ tag: "journal_grew", source: "stdout" }, "read"],
  ).put(batch(50), caughtUp()).rows(
    [{ tag: "group_ended" }, "read final"],
    [caughtUp(true)],
  );
});

Deno.test("signal: the worker is stopped, and what is not delivered within 10 s after its end is left", () => {
  const subject = serving().put(BROKEN);
  subject.rows([{ tag: "signal" }, "end_group 5"], [{ tag: "signal" }, "end_group 5"]);
  subject.now = 4000;
  subject.put({ tag: "tick" }, BROKEN, { tag: "group_ended" });
  subject.now = 5000;
  subject.put({ tag: "worker_exited", end: END });
  subject.now = 14_999;
  subject.put({ tag: "tick" });
  assert.equal(subject.state.stay.tag, "signalled");
  subject.now = 15_000;
  subject.rows([{ tag: "tick" }, "close", "leave 7 given_up"]);
});

Deno.test("signal: one that comes before the worker is there stops it when it is", () => {
  new Subject().rows(
    [{ tag: "started" }, "start_worker"],
    [{ tag: "signal" }],
    [WORKER_STARTED, "end_group 5", "connect"],
  );
});

Deno.test("control: a worker without messages is stopped by signal and continues by signal", () => {
  serving().rows(
    [desired(true), "record paused 0 signal", "SIGSTOP", "send control"],
    [desired(true), "send control"],
    [desired(false), "record running 0", "SIGCONT", "send control"],
    [desired(false, 50), "set_rate 50", "record running 50", "send control"],
    [{ tag: "throttled", off: true }, "SIGSTOP inside"],
    [{ tag: "throttled", off: false }, "SIGCONT inside"],
    [{ tag: "throttled", off: true }, "SIGSTOP inside"],
    [desired(true, 50), "record paused 50 signal", "SIGSTOP", "send control"],
    [{ tag: "throttled", off: false }],
    [desired(false, 0), "set_rate 0", "record running 0", "SIGCONT", "send control"],
  );
});

Deno.test("control: a worker with messages is asked, and its answers count", () => {
  const { state: asked } = serving({ takesMessages: true }).rows(
    [caughtUp(), "arm_growth"],
    [desired(true), "record paused 0", "ask pause", "send control"],
  );
  const rows: [string, (string | Event)[], string][] = [
    ["an answer", ["paused"], "paused_by_message"],
    ["an answer to the message before", ["resumed"], "asked_to_pause"],
    ["something else", ["checkpoint_saved"], "asked_to_pause"],
    ["it resumes, which nobody wants", ["paused", "resumed"], "resumed_unasked"],
    ["and pauses again", ["paused", "resumed", "paused"], "paused_by_message"],
    ["it may continue", ["paused", desired(false)], "asked_to_resume"],
    ["it may continue before it has answered", [desired(false), "paused"], "asked_to_resume"],
    ["it continues", ["paused", desired(false), "resumed"], "running"],
    ["both in one batch", [desired(false), "paused,resumed"], "running"],
    ["it answers late", [{ tag: "tick" }, "paused", "resumed"], "paused_by_signal"],
  ];
  for (const [what, happens, expected] of rows) {
    const subject = new Subject();
    subject.state = asked;
    subject.now = 10_000;
    happens.forEach((one, i) => {
      if (typeof one === "object") return subject.put(one);
      const answers = { to: 10 * (i + 1), eventKinds: one.split(","), lines: 1, bytes: 10 };
      subject.put({ tag: "journal_grew", source: "stdout" }, batch(answers.to, answers));
    });
    assert.equal(
      subject.state.control.tag === "active" && subject.state.control.pausing.tag,
      expected,
      what,
    );
  }
});

Deno.test("control: a worker that the daemon tells is not written to, and its answers count as well", () => {
  const hears = (paused: boolean): Event => ({
    tag: "control",
    desired: { paused, maxRateHz: 0, workerHears: true },
  });
  const answer = (to: number, kind: string) => batch(to, { bytes: 10, eventKinds: [kind] });
  const subject = serving().put(caughtUp(), hears(true));
  assert.deepEqual(subject.effects.map(brief).filter(Boolean), ["record paused 0", "send control"]);
  subject.put(answer(10, "paused"), hears(false), answer(20, "resumed"));
  assert.equal(
    subject.state.control.tag === "active" && subject.state.control.pausing.tag,
    "running",
  );
  assert.ok(!subject.effects.map(brief).includes("SIGSTOP"));
  serving().put(caughtUp(), hears(true)).tick("record paused 0 signal", "SIGSTOP", "send control");
});

Deno.test("control: a worker that does not answer a pause is stopped after 10 s", () => {
  const subject = serving({ takesMessages: true }).put(caughtUp(), desired(true));
  subject.tick("record paused 0 signal", "SIGSTOP", "send control");
  assert.equal(subject.now, 10_000);
  assert.deepEqual(log(subject.effects), ["the worker does not answer the pause and is stopped"]);
});

Deno.test("control: what another proxy has left", () => {
  type Inherited = Extract<Event, { tag: "worker_started" }>["inherited"];
  const rows: [Inherited, boolean, ...string[]][] = [
    [{ paused: false, maxRateHz: 0, pausedBy: "" }, false, "SIGCONT", "connect"],
    [{ paused: false, maxRateHz: 9, pausedBy: "" }, false, "set_rate 9", "SIGCONT", "connect"],
    [{ paused: true, maxRateHz: 0, pausedBy: "signal" }, false, "SIGSTOP", "connect"],
    [{ paused: true, maxRateHz: 0, pausedBy: "signal" }, true, "SIGSTOP", "connect"],
    [{ paused: true, maxRateHz: 0, pausedBy: "message" }, true, "SIGCONT", "connect"],
    [
      { paused: true, maxRateHz: 0, pausedBy: "" },
      true,
      "record paused 0",
      "SIGCONT",
      "ask pause",
      "connect",
    ],
    [
      { paused: true, maxRateHz: 0, pausedBy: "" },
      false,
      "record paused 0 signal",
      "SIGSTOP",
      "connect",
    ],
    [
      { paused: false, maxRateHz: 0, pausedBy: "message" },
      true,
      "record running 0 message",
      "SIGCONT",
      "ask resume",
      "connect",
    ],
  ];
  for (const [inherited, takesMessages, ...expected] of rows) {
    new Subject({ takesMessages }).rows([{ tag: "started" }, "start_worker"], [
      { tag: "worker_started", leader: LEADER, inherited },
      ...expected,
    ]);
  }
});

Deno.test("holds: a daemon whose disk is full holds the worker, and is not taken for dead while it says so", () => {
  const full = { ...acknowledged(0), storeFull: true } as Event;
  const subject = serving();
  subject.rows(
    [batch(100_000), "count_steps", "disarm_growth", "read"],
    [full, "SIGSTOP", "send control"],
  );
  for (const before = subject.now; subject.now < before + 60_000;) {
    subject.now += 1000;
    subject.put({ tag: "tick" }, full);
  }
  assert.equal(subject.state.delivery.connection.tag, "open");
  subject.rows([acknowledged(100_000), "SIGCONT", "send control"]);
  // Of a daemon that has gone nothing is known.
  subject.put(batch(200_000), full);
  assert.ok(subject.put(BROKEN).effects.map(brief).includes("SIGCONT"));
});

Deno.test("holds: the backlog and the disk hold the worker, each until it is gone", () => {
  const backlog = (bytes: number): Event => ({ tag: "backlog_measured", bytes, limit: 100 });
  const disk = (enough: boolean): Event => ({
    tag: "free_space_measured",
    enough,
    text: "free space",
  });
  const subject = serving().rows(
    [backlog(100)],
    [backlog(101), "SIGSTOP", "send control"],
    [disk(false)],
    [backlog(50)],
    [backlog(49), "send control"],
    [disk(true), "SIGCONT", "send control"],
    [disk(false), "SIGSTOP", "send control"],
  );
  // The worker's end lifts it, which is not reported: a run that is cancelled while it is held
  // never continued.
  subject.rows([{ tag: "worker_exited", end: END }, "SIGCONT"], [disk(false)], [backlog(101)]);
  new Subject().put({ tag: "started" }).rows([disk(false)], [backlog(101)]);
});

Deno.test("signals that cannot be sent are sent again after 1 s, and none after the end", () => {
  const subject = serving().put(caughtUp()).rows(
    [desired(true), "record paused 0 signal", "SIGSTOP", "send control"],
    [{ tag: "group_not_signalled" }],
  );
  subject.tick("SIGSTOP");
  assert.equal(subject.now, 1000);
  subject.put({ tag: "group_not_signalled" }, { tag: "worker_exited", end: END }, {
    tag: "group_not_signalled",
  });
  assert.ok(dueAt(subject.state) > 2000);
});

Deno.test("control: what a daemon desires before there is a worker is applied when there is one", () => {
  // As of a proxy that says hello first, whose connection is open by then.
  const subject = new Subject();
  subject.state = {
    ...serving().state,
    worker: subject.state.worker,
    control: subject.state.control,
  };
  subject.rows([desired(true), "send control"], [
    WORKER_STARTED,
    ...["send worker_started", "record paused 0 signal", "SIGSTOP", "send control"],
  ]);
});

Deno.test("state: without a word of the daemon for the lease, the worker is stopped, which is recorded; any word renews it", () => {
  const subject = serving({ leaseMs: 10_000, heartbeatMs: 4000 });
  subject.tick("send heartbeat");
  subject.rows([{ tag: "heartbeat_answered" }]);
  subject.put(caughtUp());
  subject.now = 13_999;
  subject.rows([{ tag: "tick" }, "send heartbeat"]);
  subject.rows([BROKEN, "close", "await_daemon"]);
  subject.now = 14_000;
  subject.rows([{ tag: "tick" }, "record_lease_end", "end_group 5"]);
  subject.now = 14_100;
  subject.rows([{ tag: "tick" }, "connect"]);
});

Deno.test("state: a warning before the time limit or the daemon asks the worker for a checkpoint, the warning also where it came before the worker ran", () => {
  serving({ takesMessages: true }).rows([{ tag: "limit_near" }, "ask checkpoint"]);
  serving().rows([{ tag: "limit_near" }]);
  serving({ takesMessages: true }).rows([{ tag: "checkpoint_requested" }, "ask checkpoint"]);
  serving().rows([{ tag: "checkpoint_requested" }]);
  new Subject({ takesMessages: true }).rows(
    [{ tag: "started" }, "start_worker"],
    [{ tag: "limit_near" }],
    [WORKER_STARTED, "connect", "ask checkpoint"],
  );
});

Deno.test("state: a worker without a start file is started when the daemon has said what it begins with, or after its time", () => {
  const worker = { environment: { LR: "0.1" }, resumeFrom: "checkpoints/model.pt", fetch: true };
  const settings = { helloFirst: true, welcomeWaitMs: 60_000 };
  const subject = new Subject(settings).rows(
    [{ tag: "started" }, "connect"],
    [CONNECTED, "send hello"],
    [{ ...welcome(), worker } as Event, "start_worker", "seek 0", "send control", "read"],
  );
  const started = subject.effects.find(({ tag }) => tag === "start_worker");
  assert.deepEqual(started, { tag: "start_worker", settings: worker });
  subject.rows([WORKER_STARTED, "send worker_started"]);

  const alone = new Subject(settings).rows([{ tag: "started" }, "connect"], [
    BROKEN,
    "close",
    "await_daemon",
  ]);
  while (alone.state.worker.tag === "awaiting_welcome") {
    alone.now = dueAt(alone.state);
    alone.put({ tag: "tick" });
    if (alone.now < 60_000) alone.put(BROKEN);
  }
  assert.equal(alone.now, 60_000);
  assert.deepEqual(alone.effects.map(brief).filter((text) => text === "start_worker"), [
    "start_worker",
  ]);
  // Whoever answers later finds it running.
  alone.put(WORKER_STARTED, BROKEN);
  alone.now = dueAt(alone.state);
  alone.put({ tag: "tick" }, CONNECTED);
  const hello = alone.effects.find(({ tag }) => tag === "send");
  assert.deepEqual(hello, {
    tag: "send",
    message: { case: "hello", leader: LEADER, startsWorker: false },
  });
  alone.rows([{ ...welcome(), worker } as Event, "seek 0", "send control", "read"]);
});

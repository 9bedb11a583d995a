import assert from "node:assert/strict";
import { type Capacity, schedule, type WaitingRun } from "../../src/dispatch/queue/scheduler.ts";

function run(runId: string, fields: Partial<WaitingRun> = {}): WaitingRun {
  return {
    runId,
    priority: 0,
    rank: 0,
    owner: "",
    createdAt: Number(runId.slice(1)),
    gpusRequested: 0,
    gpusMandatory: false,
    heldSlots: [],
    notBefore: null,
    waitingFor: "",
    ...fields,
  };
}

const ROOM: Capacity = {
  now: 1000,
  freeSlots: [0, 1, 2, 3],
  holders: [],
  gpusOf: new Map(),
  maxGpusPerUser: Infinity,
  runsOf: new Map(),
  maxRunsPerUser: Infinity,
  used: [],
  asking: false,
  totalSlots: 4,
  slotsKnown: true,
  running: 0,
  maxRuns: 100,
  starting: 0,
  maxStarting: 100,
};
const mandatory = (n: number): Partial<WaitingRun> => ({ gpusRequested: n, gpusMandatory: true });
const started = (waiting: WaitingRun[], capacity: Partial<Capacity> = {}) =>
  schedule(waiting, { ...ROOM, ...capacity }).start;

Deno.test("scheduler: higher priority first, then first come, first served", () => {
  const waiting = [run("r3"), run("r1"), run("r2", { priority: 5 })];
  assert.deepEqual(started(waiting).map((s) => s.runId), ["r2", "r1", "r3"]);
});

Deno.test("scheduler: no more runs than may run, and than may start, at once", () => {
  const waiting = [run("r1"), run("r2"), run("r3")];
  assert.deepEqual(started(waiting, { running: 4, maxRuns: 6 }).map((s) => s.runId), ["r1", "r2"]);
  assert.deepEqual(started(waiting, { starting: 1, maxStarting: 2 }).map((s) => s.runId), ["r1"]);
  const { queue } = schedule(waiting, { ...ROOM, running: 1, maxRuns: 1 });
  assert.deepEqual(queue.map((q) => q.position), [1, 2, 3]);
  assert.match(queue[0]!.waitingFor, /1 runs that may run/);
});

Deno.test("scheduler: mandatory GPUs are given all or none, lowest free slots first", () => {
  assert.deepEqual(started([run("r1", mandatory(2))], { freeSlots: [3, 1, 2] }), [{
    runId: "r1",
    slots: [1, 2],
  }]);
  const { start, queue } = schedule([run("r1", mandatory(2))], { ...ROOM, freeSlots: [3] });
  assert.deepEqual(start, []);
  assert.deepEqual(queue, [{ runId: "r1", position: 1, waitingFor: "2 GPUs (1 free)" }]);
});

Deno.test("scheduler: while a run waits for its GPUs nobody behind it takes one, but runs without GPUs pass", () => {
  const waiting = [
    run("r1", mandatory(3)),
    run("r2", mandatory(1)),
    run("r3"),
    run("r4", { gpusRequested: 1 }),
  ];
  const { start, queue } = schedule(waiting, { ...ROOM, freeSlots: [0, 1] });
  assert.deepEqual(start, [{ runId: "r3", slots: [] }, { runId: "r4", slots: [] }]);
  assert.deepEqual(queue.map((q) => q.runId), ["r1", "r2"]);
  assert.match(queue[1]!.waitingFor, /1 run before it wants GPUs too/);
});

Deno.test("scheduler: a demand that this host cannot meet blocks nobody", () => {
  const { start, queue } = schedule([run("r1", mandatory(9)), run("r2", mandatory(4))], ROOM);
  assert.deepEqual(start, [{ runId: "r2", slots: [0, 1, 2, 3] }]);
  assert.equal(queue[0]!.waitingFor, "9 GPUs, and this host has 4");
});

Deno.test("scheduler: GPUs that are not mandatory are taken as far as there are any", () => {
  const wanting = run("r1", { gpusRequested: 3 });
  assert.deepEqual(started([wanting], { freeSlots: [2] }), [{ runId: "r1", slots: [2] }]);
  assert.deepEqual(started([wanting], { freeSlots: [] }), [{ runId: "r1", slots: [] }]);
});

Deno.test("scheduler: a run that holds its slots already starts with those", () => {
  const holder = run("r1", { ...mandatory(2), heldSlots: [0, 1] });
  assert.deepEqual(started([holder], { freeSlots: [] }), [{ runId: "r1", slots: [] }]);
});

Deno.test("scheduler: a back-off keeps a run out of everybody's way and says when to look again", () => {
  const waiting = [
    run("r1", { ...mandatory(4), notBefore: 5000 }),
    run("r2", mandatory(4)),
    run("r3", { notBefore: 3000 }),
  ];
  const { start, queue, wakeAt } = schedule(waiting, ROOM);
  assert.deepEqual(start.map((s) => s.runId), ["r2"]);
  assert.deepEqual(queue.map((q) => q.runId), ["r3", "r1"]);
  assert.equal(wakeAt, 3000);
});

Deno.test("scheduler: while the host's slots are not known, none is given away, and runs that need none start", () => {
  const waiting = [
    run("r1", mandatory(1)),
    run("r2", { gpusRequested: 1 }),
    run("r3"),
    run("r4", { ...mandatory(1), heldSlots: [2] }),
  ];
  const { start, queue } = schedule(waiting, { ...ROOM, slotsKnown: false });
  assert.deepEqual(start, [{ runId: "r3", slots: [] }, { runId: "r4", slots: [] }]);
  assert.match(queue[0]!.waitingFor, /^1 GPU \(.*cannot be entered/);
  assert.deepEqual(queue.map(({ runId }) => runId), ["r1", "r2"]);
});

Deno.test("scheduler: ranks of fair shares order runs of one priority", () => {
  const waiting = [
    run("r1", { rank: 2 }),
    run("r2", { rank: 1 }),
    run("r3", { rank: 3, priority: 1 }),
  ];
  assert.deepEqual(started(waiting).map((s) => s.runId), ["r3", "r2", "r1"]);
});

Deno.test("scheduler: no owner gets more GPUs than one may have; the others' runs pass, the owner's own do not", () => {
  const a = { owner: "a" };
  const waiting = [
    run("r1", { ...mandatory(2), ...a }),
    run("r2", { ...mandatory(1), ...a }),
    run("r3", { gpusRequested: 1, ...a }),
    run("r4", { ...mandatory(2), owner: "b" }),
    run("r5", a),
  ];
  const { start, queue } = schedule(waiting, {
    ...ROOM,
    gpusOf: new Map([["a", 1]]),
    maxGpusPerUser: 2,
  });
  assert.deepEqual(start, [
    { runId: "r3", slots: [] },
    { runId: "r4", slots: [0, 1] },
    { runId: "r5", slots: [] },
  ]);
  assert.deepEqual(queue.map(({ waitingFor }) => waitingFor), [
    "2 GPUs (a has 1, and may have 2 at a time)",
    "1 GPU (1 run before it wants GPUs too)",
  ]);
  const both = [
    run("r1", { ...mandatory(1), ...a }),
    run("r2", { ...mandatory(1), ...a }),
    run("r3", { gpusRequested: 3, ...a }),
  ];
  assert.deepEqual(
    schedule(both, { ...ROOM, maxGpusPerUser: 2 }).start,
    [{ runId: "r1", slots: [0] }, { runId: "r2", slots: [1] }, { runId: "r3", slots: [] }],
    "what starts in this pass counts",
  );
});

Deno.test("scheduler: while the drivers are asked no run starts without its cards, though some are known to be in use", () => {
  const asked = { ...ROOM, freeSlots: [], used: ["gpu 3: 22 GiB in use"], asking: true };
  const waiting = [run("r1", mandatory(2)), run("r2", { gpusRequested: 2 }), run("r3")];
  const unsure = schedule(waiting, asked);
  assert.deepEqual(unsure.start, [{ runId: "r3", slots: [] }]);
  assert.deepEqual(unsure.blocked, [], "nobody gives way before it is known what lacks");
  assert.match(unsure.queue[0]!.waitingFor, /gpu 3: 22 GiB in use/);
  const known = schedule(waiting, { ...asked, likely: 1 });
  assert.deepEqual(known.start, [{ runId: "r3", slots: [] }]);
  assert.deepEqual(known.blocked.map(({ runId }) => runId), ["r1"]);
  assert.equal(known.freeGpus, 1);
});

import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { InVain, restMs } from "../../src/dispatch/queue/in_vain.ts";
import {
  type Blocked,
  preemptions,
  preemptionsForAble,
  type Runner,
} from "../../src/dispatch/queue/preempt.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture, type PlayedProxy } from "../harness/engine.ts";
import { until } from "../harness/wait.ts";

// ------------------------------------------------------------------------------------------------------
// pure decisions

/**
 * "v1g2": preemptible, priority 1, two GPUs; "n…": not preemptible; "…e": ends already; "…a": asked
 * for a checkpoint; "…o": of the owner who wants more.
 */
function runners(text: string): Runner[] {
  return text.split(" ").filter((word) => word !== "").map((word, i) => {
    const [, kind, priority, gpus, flags] = /^([vn])(-?\d+)g(\d)(\w*)$/.exec(word)!;
    return {
      runId: `${i}`,
      owner: flags!.includes("o") ? "o" : "p",
      priority: Number(priority),
      gpus: Number(gpus),
      startedAt: i,
      ending: flags!.includes("e"),
      preemptible: kind === "v",
      asked: flags!.includes("a"),
    };
  });
}
/** "5g2": priority 5, two GPUs; "…l1": of an owner who has one more than allowed then. */
const wants = (text: string): Blocked[] =>
  text.split(" ").map((word, i) => {
    const [, priority, gpus, , over] = /^(-?\d+)g(\d)(l(\d))?$/.exec(word)!;
    return {
      runId: "abc"[i]!,
      owner: "o",
      priority: Number(priority),
      gpus: Number(gpus),
      overLimit: Number(over ?? 0),
    };
  });

Deno.test("preempt: who gives way to whom", () => {
  for (
    const [blocked, running, places, gpus, expected, why] of [
      ["5g0", "v1g0", 0, 0, "0→a", "a place"],
      ["5g0", "n1g0", 0, 0, "", "not without its consent"],
      ["1g0", "v1g0", 0, 0, "", "not to an equal"],
      ["5g0", "v1g0 v0g0 v0g0", 0, 0, "2→a", "the least priority, then the latest start"],
      ["5g0", "v0g0 v1g0a", 0, 0, "1→a", "first those that were asked"],
      ["5g0", "v1g0 n1g0e", 0, 0, "", "a place becomes free anyway"],
      ["5g0", "v1g0 v1g0e", 0, 0, "", "one has been stopped for it"],
      ["5g0 5g0", "v1g0 v1g0 v1g0e", 0, 0, "1→b", "the second needs another"],
      ["5g2", "v1g1 v1g1 v1g0", 9, 0, "1→a 0→a", "one without GPUs helps nothing"],
      ["5g2", "v1g1 v1g1", 9, 1, "1→a", "with the free one it is enough"],
      ["5g4", "v1g1 v1g1", 9, 1, "", "never enough: nobody is stopped in vain"],
      ["5g2", "v1g2 v0g1", 9, 0, "0→a", "none is stopped who is not needed"],
      ["5g1", "v1g0 v1g1", 0, 0, "1→a", "one gives both place and GPU"],
      ["5g4 5g1", "v1g1", 9, 0, "", "what is kept for the first is not given to the second"],
      ["5g4 5g0", "v1g1", 0, 0, "0→b", "but a place is"],
      ["5g1 3g1", "v1g1 v4g1", 9, 0, "0→a", "the second is below the other"],
      ["5g1l1", "v0g1 v1g1o", 9, 3, "1→a", "at the owner's limit only the owner's own help"],
      ["5g1l1", "v0g1 n1g1o", 9, 3, "", "and there may be none"],
      ["5g1l1", "v0g1 v1g1o", 9, 0, "1→a", "one gives both"],
      ["5g2l1", "v0g1 v1g1o", 9, 0, "0→a 1→a", "the limit, and the GPUs of the host"],
      ["5g1l1 5g1l2", "v1g2o v1g1o", 9, 0, "1→a 0→b", "the second needs another"],
      ["5g1l1 5g1l2", "v1g2oe v1g1o", 9, 0, "", "the end of one is enough for both"],
      ["-1g0", "v-2g0", 0, 0, "0→a", "negative priorities"],
    ] as [string, string, number, number, string, string][]
  ) {
    const found = preemptions(wants(blocked), runners(running), { places, gpus });
    assert.equal(
      found.map(({ victim, by }) => `${victim}→${by}`).join(" "),
      expected,
      `${blocked} | ${running}: ${why}`,
    );
  }
});

Deno.test("preempt: nobody gives way to a run that could not start anyway", () => {
  for (
    const [blocked, running, able, expected, why] of [
      ["5g0", "v1g0", "", "", "its disk is full"],
      ["5g0 4g0", "v1g0", "b", "0→b", "the next one that can start gets the place"],
      ["5g0 4g0 3g0", "v1g0 v1g0", "ac", "1→a 0→c", "between two that can"],
      ["5g2 4g1", "v1g1 v1g1", "b", "1→b", "it keeps no GPUs"],
    ] as [string, string, string, string, string][]
  ) {
    const room = { places: running.includes("g1") ? 9 : 0, gpus: 0 };
    const found = preemptionsForAble(
      wants(blocked),
      runners(running),
      room,
      (runId) => able.includes(runId),
    );
    assert.equal(found.map(({ victim, by }) => `${victim}→${by}`).join(" "), expected, why);
  }
  const many = Array.from({ length: 1000 }, (_, i) => ({ ...wants("5g0")[0]!, runId: `${i}` }));
  let looks = 0;
  assert.deepEqual(
    preemptionsForAble(many, runners("v1g0"), { places: 0, gpus: 0 }, () => ++looks < 0),
    [],
  );
  assert.ok(looks < 30, `${looks} looks`);
});

Deno.test("preempt: after one in vain, the run stops nobody and its victim is spared, for longer each time", () => {
  const steps: [step: string, mayPreempt: boolean, spared: boolean][] = [
    ["gave way", true, false],
    ["failed", false, true],
    ["1 min", true, false],
    ["gave way", true, false],
    ["failed", false, true],
    ["1 min", false, true],
    ["1 min", true, false],
    // Without a victim, only the run itself rests.
    ["failed", false, false],
    ["came up", true, false],
    ["failed", false, false],
    ["1 min", true, false],
    ["gave way", true, false],
    ["came up", true, false],
    ["failed", false, false],
  ];
  const vain = new InVain();
  let now = 1000;
  for (const [at, [step, mayPreempt, spared]] of steps.entries()) {
    if (step === "gave way") vain.gaveWay("victim", "by");
    else if (step === "failed") vain.startFailed("by", now);
    else if (step === "came up") vain.cameUp("by");
    else now += 60_000;
    assert.deepEqual(
      [vain.mayPreempt("by", now), vain.isSpared("victim", now)],
      [mayPreempt, spared],
      `${at}: ${step}`,
    );
  }
  // Another run that cannot start finds the victim spared, too.
  vain.gaveWay("victim", "other");
  vain.startFailed("other", now);
  assert.ok(
    vain.isSpared("victim", now + 4 * 60_000 - 1) && !vain.isSpared("victim", now + 4 * 60_000),
  );
  vain.startFailed("victim", now);
  vain.ended("victim");
  assert.deepEqual([vain.mayPreempt("victim", now), vain.isSpared("victim", now)], [true, false]);
  assert.deepEqual([1, 2, 6, 7, 9999].map(restMs), [
    60_000,
    120_000,
    1_920_000,
    3_600_000,
    3_600_000,
  ]);
});

// --------------------------------------------------------------------------------------------------------------
// engine

const command = ["/bin/true"];
const gpus = { requested: 1, mandatory: true };
const low = (metadata: Record<string, unknown> = {}, worker: Record<string, unknown> = {}) =>
  configOf({
    command,
    gpus,
    metadata: {
      queue: { preemptible: true },
      worker: { script: "/bin/true", use_grpc: false, ...worker },
      ...metadata,
    },
  });
const high = (more: Record<string, unknown> = {}) =>
  configOf({ command, gpus, metadata: { priority: 9, ...more } });
const stopped = (proxy: PlayedProxy) => until(() => proxy.stops.length > 0, { what: "the stop" });
const killed = { code: null, signal: "SIGTERM" };

Deno.test("preemptible: a run gives its GPU to one of higher priority, and goes on from its checkpoint; no attempt is lost", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const victim = f.engine.submit(low({ restart: { max_attempts: 2, backoff_s: 0 } })).runId;
  const proxy = await f.connect(victim);
  await proxy.event("checkpoint_saved", { path: "/ckpt/1" });
  f.engine.submit(configOf({ command, gpus }));
  const urgent = f.engine.submit(high()).runId;
  await stopped(proxy);
  assert.equal(f.row(victim).faultRequested, "preempted");
  // A worker that saves a checkpoint at SIGTERM ends with 0.
  await proxy.event("checkpoint_saved", { path: "/ckpt/2" });
  proxy.exit();
  const row = await f.state(victim, "INIT", 2);
  assert.deepEqual([row.resumeFrom, row.maxAttempts, row.reason, row.notBefore], [
    "/ckpt/2",
    3,
    "preempted",
    null,
  ]);
  const other = await f.connect(urgent);
  assert.deepEqual(f.row(urgent).gpuSlots, [0]);
  const event = f.registry.eventsSince(0, { runId: victim, kinds: ["preempted"], limit: 9 });
  assert.deepEqual(event.map(({ dataJson }) => JSON.parse(dataJson)), [
    { by: urgent, priority: 9, asked: false, saved: false },
  ]);
  other.exit();
  // It was submitted before the other run of its priority.
  const second = await f.connect(victim, 2);
  second.exit({ code: 1 });
  await f.state(victim, "INIT", 3);
});

Deno.test("preemptible: a worker that reads messages is asked for a checkpoint, and stopped when it has saved one", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const victim = f.engine.submit(low({}, { supports_pause: true })).runId;
  const proxy = await f.connect(victim);
  const urgent = f.engine.submit(high()).runId;
  await until(() => proxy.checkpointsAsked === 1, { what: "the request" });
  assert.deepEqual([proxy.stops, f.row(victim).faultRequested], [[], null]);
  // The run that wants the GPU is gone: nobody is stopped, and a later one asks again.
  f.engine.cancel(urgent);
  await proxy.event("checkpoint_saved", { path: "/ckpt/1" });
  const other = f.engine.submit(configOf({ command, gpus })).runId;
  // Before the queue has been looked at without it, the checkpoint that is there would do.
  const waitingFor = () => f.engine.detail(f.row(other)).waitingFor;
  await until(() => /GPU/.test(waitingFor()), { what: "a look at the queue", state: waitingFor });
  const next = f.engine.submit(high()).runId;
  await until(() => proxy.checkpointsAsked === 2, { what: "the second request" });
  assert.deepEqual(proxy.stops, []);
  await proxy.event("checkpoint_saved", { path: "/ckpt/2" });
  await stopped(proxy);
  proxy.exit(killed);
  assert.equal((await f.state(victim, "INIT", 2)).resumeFrom, "/ckpt/2");
  await f.connect(next);
  assert.equal(f.eventKinds(victim).filter((kind) => kind === "preempted").length, 1);
});

Deno.test("preemptible: one that does not answer the request is stopped after its time; one that ends by itself has ended", async () => {
  await using f = EngineFixture.start({ gpuCount: 2, preemptCheckpointMs: 300 });
  const silent = f.engine.submit(low({}, { supports_pause: true })).runId;
  const proxy = await f.connect(silent);
  const done = f.engine.submit(low({ priority: 1 }, { supports_pause: true })).runId;
  const ending = await f.connect(done);
  const urgent = f.engine.submit(high()).runId;
  await stopped(proxy);
  proxy.exit(killed);
  await f.state(silent, "INIT", 2);
  await f.connect(urgent);
  f.engine.submit(high());
  await until(() => ending.checkpointsAsked === 1, { what: "the request" });
  ending.exit();
  await f.state(done, "TERMINATED");
});

Deno.test("preemptible: places count as GPUs do; at a user's limit only that user's runs help; who is not due stops nobody", async () => {
  await using f = EngineFixture.start({ gpuCount: 2, maxRuns: 2, maxGpusPerUser: 1 });
  const [alices, bobs] = [
    f.engine.submit(low(), "", "alice").runId,
    f.engine.submit(low(), "", "bob").runId,
  ];
  const [hers, his] = [await f.connect(alices), await f.connect(bobs)];
  const later = f.engine.submit(high({ queue: { begin: "+1h" } }), "", "bob").runId;
  const urgent = f.engine.submit(high(), "", "alice").runId;
  await stopped(hers);
  hers.exit(killed);
  await f.state(alices, "INIT", 2);
  await f.connect(urgent);
  assert.deepEqual(his.stops, []);
  const place =
    f.engine.submit(configOf({ command, metadata: { priority: 1 } }), "", "carol").runId;
  await stopped(his);
  his.exit(killed);
  await f.state(bobs, "INIT", 2);
  const [event] = f.registry.eventsSince(0, { runId: bobs, kinds: ["preempted"], limit: 9 });
  assert.equal(JSON.parse(event!.dataJson).by, place);
  assert.equal(f.row(later).state, "INIT");
});

Deno.test("preemptible: a run whose process cannot be created does not stop the same run again and again", async () => {
  await using f = EngineFixture.start({ gpuCount: 1, maxRuns: 1 });
  const victim = f.engine.submit(low()).runId;
  const proxy = await f.connect(victim);
  const start = f.proxies.start.bind(f.proxies);
  let tries = 0;
  f.proxies.start = (given) => {
    if (given.runId === victim) return start(given);
    tries++;
    throw new Error("no process can be created (os error 11)");
  };
  const urgent = f.engine.submit(configOf({ command, metadata: { priority: 9 } })).runId;
  await stopped(proxy);
  proxy.exit(killed);
  await until(() => tries === 1, { what: "the start that fails" });
  const second = await f.connect(victim, 2);
  const waitingFor = () => f.engine.detail(f.row(urgent)).waitingFor;
  await until(() => waitingFor().startsWith("a place"), {
    what: "the end of its back-off",
    state: waitingFor,
  });
  assert.deepEqual([second.stops, f.row(victim).faultRequested, tries], [[], null, 1]);
});

Deno.test("preemptible: a worker that ends well before it is sent SIGTERM has succeeded, and does not start once more", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const victim = f.engine.submit(low()).runId;
  const proxy = await f.connect(victim);
  const urgent = f.engine.submit(high()).runId;
  await stopped(proxy);
  proxy.exit({ byItself: true });
  const row = await f.state(victim, "TERMINATED");
  assert.equal(row.outcome, "succeeded");
  (await f.connect(urgent)).exit();
  await f.state(urgent, "TERMINATED");

  // Of an earlier daemon's stop it is not known whether that daemon has signalled the worker
  // itself.
  const other = f.engine.submit(low()).runId;
  const before = await f.connect(other);
  f.engine.submit(high());
  await stopped(before);
  await f.engine.close();
  await using next = f.successor(1);
  const again = await next.connect(other);
  await stopped(again);
  again.exit({ byItself: true });
  await next.state(other, "INIT", 2);
});

Deno.test("preemptible: at whatever point the daemon dies, the next one completes it once", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const victim = f.engine.submit(low({}, { supports_pause: true })).runId;
  const first = await f.connect(victim);
  const urgent = f.engine.submit(high()).runId;
  await until(() => first.checkpointsAsked === 1, { what: "the request" });
  // Asked, nothing committed.
  await f.engine.close();
  await using second = f.successor(1);
  const again = await second.connect(victim);
  await until(() => again.checkpointsAsked === 1, { what: "the request of the second daemon" });
  // Committed, not stopped.
  await second.engine.close();
  f.registry.update(victim, { faultRequested: "preempted" });
  await using third = f.successor(1);
  const last = await third.connect(victim);
  await stopped(last);
  // The end is committed, and the next attempt is not.
  await third.engine.close();
  f.registry.apply(victim, { type: "failed", reason: "preempted" });
  await using fourth = f.successor(1);
  const row = await fourth.state(victim, "INIT", 2);
  assert.equal(row.maxAttempts, 2);
  await fourth.connect(urgent);
  assert.deepEqual(fourth.row(urgent).gpuSlots, [0]);
});

Deno.test("preemptible: for runs on the daemon's own host only", async () => {
  await using f = EngineFixture.start();
  const refused = (config: string, text: RegExp) =>
    assert.throws(
      () => f.engine.submit(config),
      (e) => e instanceof MosaicError && e.code === "invalid_argument" && text.test(e.message),
    );
  refused(low({ launcher: "slurm" }), /preemptible is true, and this is a run that slurm places/);
  refused(low({}, { external: true }), /whose proxy somebody else starts/);
});

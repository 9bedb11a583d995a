import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { momentAt, readAfter } from "../../src/config/queue_fields.ts";
import { violationsOf } from "../../src/config/config.ts";
import { type Predecessor, turnOf, type Wishes } from "../../src/dispatch/queue/turn.ts";
import { sweepEnd } from "../../src/dispatch/queue/predecessors.ts";
import { waitText } from "../../src/dispatch/queue/wait_reasons.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture } from "../harness/engine.ts";
import { until } from "../harness/wait.ts";

const command = ["/bin/true"];
const rejected = (code: string, text: RegExp) => (e: unknown) =>
  e instanceof MosaicError && e.code === code && text.test(e.message);
const queued = (
  f: EngineFixture,
  queue: Record<string, unknown>,
  more: Record<string, unknown> = {},
) => f.engine.submit(configOf({ command, metadata: { queue, ...more } })).runId;
const waits = (f: EngineFixture, runId: string) => f.engine.detail(f.row(runId)).waitingFor;
async function waitsFor(f: EngineFixture, runId: string, text: RegExp): Promise<void> {
  await until(() => text.test(waits(f, runId)), {
    what: `${text}`,
    state: () => [waits(f, runId), f.row(runId)],
  });
}

// ------------------------------------------------------------------------------------------------------
// pure decisions

const ENDS: Record<string, Predecessor["end"]> = {
  L: "lives",
  O: "ok",
  N: "not_ok",
  F: "forgotten",
};
const known = (runId: string): Predecessor => ({
  runId,
  name: `name-${runId}`,
  end: ENDS[runId[0]!]!,
  how: { L: "", O: "ended well", N: "failed: exit_code_1", F: "was deleted" }[runId[0]!]!,
});
const wishes = (after: string[], fields: Partial<Wishes> = {}): Wishes => ({
  after: after.map(readAfter),
  afterNever: "wait",
  beginAt: null,
  deadlineAt: null,
  ...fields,
});

Deno.test("turn: what a run waits for, by how its predecessors stand", () => {
  const never = /to end well, but it failed: exit_code_1 \(dependency never satisfied\)$/;
  for (
    const [after, turn] of [
      [[], "due"],
      [["O"], "due"],
      [["O:any", "N:any"], "due"],
      [["F:any"], "due"],
      [["N:failed"], "due"],
      [["L"], /^run name-L L to end well$/],
      [["L:failed"], /^run name-L L to end without success$/],
      [["L:any"], /^run name-L L to end$/],
      [["O", "L1", "L2", "L3"], /^run name-L1 L1 and 2 more runs to end well$/],
      [["N"], never],
      [["L", "N"], never],
      [["O:failed"], /to end without success, but it ended well/],
      [["F"], /to end well, but it was deleted/],
      [["F:failed"], /to end without success, but it was deleted/],
    ] as [string[], RegExp | "due"][]
  ) {
    const found = turnOf(wishes(after), known, 0);
    if (turn === "due") assert.deepEqual(found, { t: "due" }, after.join());
    else {assert.ok(
        found.t === "held" && turn.test(found.why) && found.until === null,
        `${after}: ${Deno.inspect(found)}`,
      );}
  }
});

Deno.test("turn: a time to begin counts once the predecessors have ended, and says when to look again", () => {
  assert.deepEqual(turnOf(wishes([], { beginAt: 1000 }), known, 1000), { t: "due" });
  const held = turnOf(wishes(["O"], { beginAt: 1000 }), known, 999);
  assert.deepEqual(held, {
    t: "held",
    why: "its time to begin, 1970-01-01T00:00:01.000Z",
    until: 1000,
  });
  const both = turnOf(wishes(["L"], { beginAt: 1000 }), known, 0);
  assert.ok(both.t === "held" && both.until === null && both.why.startsWith("run name-L"));
});

Deno.test("turn: with after_never cancel a run whose predecessor ended otherwise is cancelled, with the reason", () => {
  const cancel = (after: string[]) => turnOf(wishes(after, { afterNever: "cancel" }), known, 0);
  assert.equal(cancel(["L"]).t, "held");
  const never = cancel(["L", "N"]);
  assert.ok(never.t === "over" && never.as === "cancelled");
  assert.equal(never.reason, "dependency_never_satisfied: run N failed: exit_code_1");
  assert.match(never.hint, /to end well/);
});

Deno.test("turn: after its deadline a run fails whatever else holds it, and a held run is looked at again then", () => {
  const never = wishes(["N"], { afterNever: "cancel", deadlineAt: 1000 });
  const over = turnOf(never, known, 1000);
  assert.ok(over.t === "over" && over.as === "failed" && over.reason === "deadline_passed");
  assert.match(over.hint, /its deadline, 1970-01-01T00:00:01.000Z/);
  const until = (run: Wishes, now: number) => {
    const turn = turnOf(run, known, now);
    return turn.t === "held" ? turn.until : turn.t;
  };
  assert.equal(until(wishes(["L"], { deadlineAt: 1000 }), 999), 1000);
  assert.equal(until(wishes(["N"], { deadlineAt: 1000 }), 999), 1000);
  assert.equal(until(wishes([], { deadlineAt: 1000, beginAt: 2000 }), 999), 1000);
  assert.equal(until(wishes([], { deadlineAt: 1000, beginAt: 500 }), 999), "due");
});

Deno.test("turn: a sweep has ended when its trials have; its name is in the reason, and it is asked again after a moment", () => {
  const end = (state: string, counts: Record<string, number>) =>
    sweepEnd({ state, counts } as never);
  for (
    const [state, counts, expected, how] of [
      ["running", { TERMINATED: 3 }, "lives", ""],
      ["paused", {}, "lives", ""],
      ["cancelled", { EXECUTING: 1 }, "lives", ""],
      ["cancelled", { CANCELLED: 1 }, "not_ok", "was cancelled"],
      ["finished", { TERMINATED: 3, pruned: 2, deleted: 1 }, "ok", "ended well"],
      [
        "finished",
        { TERMINATED: 3, FAULTED: 1 },
        "not_ok",
        "ended with 1 failed trial",
      ],
      [
        "finished",
        { refused: 2 },
        "not_ok",
        "ended with 2 refused trials",
      ],
      ["finished", { INIT: 1 }, "lives", ""],
    ] as [string, Record<string, number>, string, string][]
  ) {
    assert.deepEqual(
      end(state, counts),
      { end: expected, how },
      `${state} ${JSON.stringify(counts)}`,
    );
  }
  assert.equal(sweepEnd(undefined).end, "forgotten");
  const sweep = (end: Predecessor["end"]) => () => ({
    runId: "sweep:S",
    name: "lr",
    end,
    how: "was cancelled",
    polled: true,
  });
  assert.deepEqual(turnOf(wishes(["sweep:S"]), sweep("lives"), 500), {
    t: "held",
    why: "sweep lr to end well",
    until: 2500,
  });
  const over = turnOf(wishes(["sweep:S"], { afterNever: "cancel" }), sweep("not_ok"), 0);
  assert.ok(
    over.t === "over" && over.reason === "dependency_never_satisfied: sweep lr was cancelled",
  );
});

Deno.test("reasons: GPUs say who has them; a long list is cut and counted", () => {
  const holder = (runId: string, gpus: number) => ({ runId, name: "", gpus });
  const holders = [holder("A", 1), holder("B", 2), holder("C", 1), holder("D", 1), holder("E", 3)];
  const text = (behind: number) =>
    waitText({ t: "gpus", wanted: 2, free: 1, behind, holders, used: [] });
  assert.equal(text(0), "2 GPUs (1 free, 1 with A, 2 with B, 1 with C, 4 with 2 more runs)");
  assert.equal(text(1), "2 GPUs (1 run before it wants GPUs too)");
  assert.equal(
    waitText({ t: "place", maxRuns: 4, before: 2 }),
    "a place among the 4 runs that may run at once, behind 2 runs",
  );
});

Deno.test("config: what metadata.queue takes", () => {
  assert.deepEqual(readAfter("a:b:any"), { run: "a:b", when: "any" });
  assert.deepEqual(readAfter("a:b"), { run: "a:b", when: "ok" });
  assert.deepEqual(readAfter(":ok"), { run: ":ok", when: "ok" });
  assert.equal(momentAt("+1h30m", 1000), 5_401_000);
  assert.equal(momentAt("2026-11-27T18:00:00+01:00", 0), Date.UTC(2026, 10, 27, 17));
  const violations = (queue: Record<string, unknown>) =>
    violationsOf(configOf({ command, metadata: { queue } })).map(({ path, message }) =>
      `${path} ${message}`
    );
  const all = {
    after: ["a", "b:any"],
    begin: "+2h",
    after_never: "cancel",
    deadline: "+3h",
    deadline_stops: true,
  };
  assert.deepEqual(violations(all), []);
  for (
    const [queue, text] of [
      [{ begin: "18:00" }, /^metadata.queue.begin must be a time such as .*, not "18:00"$/],
      [{ begin: "2026-13-45T18:00:00Z" }, /in no calendar/],
      [{ begin: "2026-11-27T18:00:00" }, /must be a time/],
      // One whose time has no text would keep all others from being started.
      [{ begin: "+99999999999w" }, /in no calendar/],
      [{ deadline: `+${"9".repeat(400)}d` }, /in no calendar/],
      [{ after: [""] }, /^metadata.queue.after\[0\] must be/],
      [{ after: Array(101).fill("a") }, /^metadata.queue.after names 101 runs; at most 100/],
      [{ after_never: "die" }, /"wait", "cancel"/],
      [{ befor: "a" }, /befor/],
    ] as [Record<string, unknown>, RegExp][]
  ) assert.match(violations(queue).join(), text);
});

// --------------------------------------------------------------------------------------------------------------
// engine

Deno.test("after: a run starts when its predecessors have ended as they must, and says for whom it waits", async () => {
  await using f = EngineFixture.start();
  const first = f.engine.submit(configOf({ command, name: "first" })).runId;
  const ok = queued(f, { after: ["first"] });
  const failed = queued(f, { after: [`${first}:failed`] });
  const any = queued(f, { after: ["@last:any", `${first}:any`] });
  assert.match(f.row(any).configJson, new RegExp(`"after":\\["${failed}:any","${first}:any"\\]`));
  const proxy = await f.connect(first);
  await waitsFor(f, ok, new RegExp(`^run first ${first} to end well$`));
  await waitsFor(f, any, /and 1 more run to end$/);
  proxy.exit();
  await f.connect(ok);
  await waitsFor(
    f,
    failed,
    /to end without success, but it ended well \(dependency never satisfied\)/,
  );
  f.engine.cancel(failed);
  await f.connect(any);
  assert.equal(f.row(failed).startedAt, null);
});

Deno.test("after: a failed predecessor holds its successors until it is retried and ends well; cancel ends a chain", async () => {
  await using f = EngineFixture.start();
  const first = f.engine.submit(configOf({ command })).runId;
  const held = queued(f, { after: [first] });
  const dropped = queued(f, { after: [first], after_never: "cancel" });
  const behind = queued(f, { after: [dropped], after_never: "cancel" });
  (await f.connect(first)).exit({ code: 3 });
  await f.state(first, "FAULTED");
  await waitsFor(f, held, /but it failed: exit_code_3 \(dependency never satisfied\)/);
  const row = await f.state(dropped, "CANCELLED");
  assert.equal(row.reason, `dependency_never_satisfied: run ${first} failed: exit_code_3`);
  assert.match(
    (await f.state(behind, "CANCELLED")).reason!,
    new RegExp(`run ${dropped} was cancelled`),
  );
  assert.deepEqual(f.eventKinds(dropped), ["queued", "cancelled"]);
  f.engine.retry(first);
  await waitsFor(f, held, /to end well$/);
  (await f.connect(first, 2)).exit();
  await f.connect(held);
});

Deno.test("after: an attempt that another follows is no end", async () => {
  await using f = EngineFixture.start();
  const first = f.engine.submit(
    configOf({ command, metadata: { restart: { max_attempts: 2, backoff_s: 0 } } }),
  ).runId;
  const ok = queued(f, { after: [first] });
  const failed = queued(f, { after: [`${first}:failed`] });
  (await f.connect(first)).exit({ code: 1 });
  const second = await f.connect(first, 2);
  await waitsFor(f, failed, /to end without success$/);
  second.exit();
  await f.connect(ok);
  assert.equal(f.row(failed).startedAt, null);
});

Deno.test("after: how a predecessor had ended counts after its deletion, also for the next daemon", async () => {
  await using f = EngineFixture.start();
  const good = f.engine.submit(configOf({ command })).runId;
  const bad = f.engine.submit(configOf({ command })).runId;
  const waiting = queued(f, { after: [good], begin: "+1h" });
  const never = queued(f, { after: [bad] });
  (await f.connect(good)).exit();
  (await f.connect(bad)).exit({ code: 1 });
  await f.state(good, "TERMINATED");
  await f.state(bad, "FAULTED");
  await f.engine.delete(good, true);
  await f.engine.delete(bad, true);
  await f.engine.close();
  await using next = f.successor();
  await waitsFor(next, waiting, /^its time to begin/);
  await waitsFor(next, never, /but it failed: exit_code_1 and was deleted/);
  assert.equal(next.row(never).state, "INIT");
});

Deno.test("after: unknown runs and a cycle through a given id are refused, and leave nothing", async () => {
  await using f = EngineFixture.start();
  assert.throws(
    () => queued(f, { after: ["nobody"] }),
    rejected("not_found", /^metadata.queue.after\[0\]: .*nobody/),
  );
  const first = f.engine.submit(configOf({ command })).runId;
  const second = queued(f, { after: [`${first}:any`], begin: "+1h" });
  f.engine.cancel(first);
  await until(() => f.row(first).state === "CANCELLED", { what: "the end" });
  await f.engine.delete(first, true);
  const again = configOf({ command, metadata: { queue: { after: [`${second}:any`] } } });
  assert.throws(
    () => f.engine.submit(again, first),
    rejected("failed_precondition", /would wait for itself/),
  );
  assert.equal(f.registry.count({}), 1);
});

Deno.test("begin: a run waits for its time and then starts", async () => {
  await using f = EngineFixture.start();
  const later = queued(f, { begin: "+600ms" });
  await waitsFor(f, later, /^its time to begin, 20/);
  assert.equal(f.row(later).state, "INIT");
  await f.connect(later);
  const { createdAt, startedAt } = f.row(later);
  assert.ok(startedAt! >= createdAt + 600);
  await f.connect(queued(f, { begin: "2020-01-01T00:00:00Z" }));
});

Deno.test("deadline: a run that has not started by then fails, and is not retried", async () => {
  await using f = EngineFixture.start({ maxRuns: 1 });
  const first = f.engine.submit(configOf({ command })).runId;
  const proxy = await f.connect(first);
  const blocked = queued(f, { deadline: "+300ms" });
  const held = queued(f, { after: [first], deadline: "+300ms" });
  for (const runId of [blocked, held]) {
    const row = await f.state(runId, "FAULTED");
    assert.deepEqual([row.reason, row.startedAt], ["deadline_passed", null]);
    assert.match(row.hint!, /metadata.queue.deadline/);
    assert.deepEqual(f.eventKinds(runId), ["queued", "failed"]);
  }
  assert.throws(
    () => f.engine.retry(held),
    rejected("failed_precondition", /deadline of run .* has passed/),
  );
  proxy.exit();
});

Deno.test("deadline: a run that has started continues, or is stopped where deadline_stops says so", async () => {
  await using f = EngineFixture.start();
  const goesOn = queued(f, { deadline: "+500ms" });
  const stops = queued(f, { deadline: "+500ms", deadline_stops: true }, {
    restart: { max_attempts: 3 },
  });
  const [one, other] = [await f.connect(goesOn), await f.connect(stops)];
  await until(() => other.stops.length > 0, { what: "the stop" });
  assert.equal(f.row(stops).faultRequested, "deadline_passed");
  other.exit({ code: null, signal: "SIGTERM" });
  const row = await f.state(stops, "FAULTED");
  assert.equal(row.reason, "deadline_passed");
  assert.deepEqual([one.stops, f.row(goesOn).faultRequested], [[], null]);
  one.exit();
  await f.state(goesOn, "TERMINATED");
});

Deno.test("deadline: one that passes while no daemon runs is entered by the next", async () => {
  await using f = EngineFixture.start();
  const waiting = queued(f, { begin: "+300ms", deadline: "+400ms" });
  const running = queued(f, { deadline: "+400ms", deadline_stops: true });
  await f.connect(running);
  await f.engine.close();
  await new Promise((resolve) =>
    setTimeout(resolve, Math.max(0, f.row(running).createdAt + 450 - Date.now()))
  );
  await using next = f.successor();
  const proxy = await next.connect(running);
  await until(() => proxy.stops.length > 0, { what: "the stop" });
  proxy.exit({ code: null, signal: "SIGTERM" });
  assert.equal((await next.state(running, "FAULTED")).reason, "deadline_passed");
  assert.equal((await next.state(waiting, "FAULTED")).startedAt, null);
});

Deno.test("deadline: one that leaves no time is refused", async () => {
  await using f = EngineFixture.start();
  const invalid = (text: RegExp) => rejected("invalid_argument", text);
  assert.throws(
    () => queued(f, { deadline: "2020-01-01T00:00:00Z" }),
    invalid(/2020.*, which has passed/),
  );
  assert.throws(
    () => queued(f, { begin: "+2h", deadline: "+1h" }),
    invalid(/may not begin before/),
  );
  assert.equal(f.registry.count({}), 0);
});

Deno.test("after: a whole sweep; no trial may wait for its own", async () => {
  await using f = EngineFixture.start();
  f.registry.sweeps.insert({ sweepId: "S1", name: "lr", specJson: "{}", submitter: "" });
  f.registry.sweeps.change("S1", { state: "paused" });
  const after = queued(f, { after: ["sweep:lr:any"] });
  assert.match(f.row(after).configJson, /"after":\["sweep:S1:any"\]/);
  await waitsFor(f, after, /^sweep lr to end$/);
  assert.throws(
    () => queued(f, { after: ["sweep:none"] }),
    rejected("not_found", /after\[0\]: there is no sweep "none"/),
  );
  f.registry.sweeps.change("S1", { state: "finished" });
  await f.connect(after);
});

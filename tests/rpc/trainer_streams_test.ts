import assert from "node:assert/strict";
import { RunStatus, type RunStep, TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { hasCode, runId as idOf } from "../registry/fixture.ts";
import { until } from "../harness/wait.ts";
import { executing, waiting, withServer } from "./fixture.ts";
import { A_STEP } from "../harness/played_engine.ts";

const { method } = TrainerService;

/** Takes messages until the stream has given `count` of them. */
async function take<T>(stream: AsyncIterable<T>, count: number): Promise<T[]> {
  const taken: T[] = [];
  for await (const message of stream) {
    taken.push(message);
    if (taken.length === count) break;
  }
  return taken;
}

function assertContiguous(messages: { seqId: bigint }[], first: number): void {
  messages.forEach((message, i) => assert.equal(message.seqId, BigInt(first + i)));
}

Deno.test("StreamRunSteps: replay, then live, ascending without gap or repetition, every field kept", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    const full = {
      ...A_STEP,
      episode: 7,
      step: 3,
      reward: -0.25,
      terminated: true,
      truncated: true,
      workerId: "w",
      policyLabel: "p",
      backend: "b",
      renderHintJson: "{}",
      renderPayloadJson: '{"mode":"rgb"}',
      frameRef: "f",
      payloadVersion: 2,
      episodeSeed: 44,
    };
    core.telemetry.append(id, 1, [full, { ...A_STEP, reward: NaN }], []);
    const stream = client.stream(method.streamRunSteps, { runId: id })[Symbol.asyncIterator]();
    const first = (await stream.next()).value as RunStep;
    assert.deepEqual(
      [
        first.runId,
        first.episodeIndex,
        first.stepIndex,
        first.actionJson,
        first.observationJson,
        first.reward,
      ],
      [id, 7n, 3n, "1", "[0.5]", -0.25],
    );
    assert.deepEqual(
      [
        first.terminated,
        first.truncated,
        first.policyLabel,
        first.backend,
        first.agentId,
        first.workerId,
      ],
      [true, true, "p", "b", "agent_1", "w"],
    );
    assert.deepEqual(
      [
        first.renderHintJson,
        first.renderPayloadJson,
        first.frameRef,
        first.payloadVersion,
        first.episodeSeed,
      ],
      ["{}", '{"mode":"rgb"}', "f", 2, 44n],
    );
    assert.deepEqual([first.timestamp?.seconds, first.timestamp?.nanos], [
      1_700_000_000n,
      123_456_789,
    ]);
    assert.ok(Number.isNaN(((await stream.next()).value as RunStep).reward));
    const got = [];
    core.addSteps(id, 3, 1000);
    for (let i = 3; i <= 1000; i++) got.push((await stream.next()).value as RunStep);
    assertContiguous(got, 3);
    // It stays open when the run ends: the original's clients would subscribe again for ever.
    core.registry.apply(id, { type: "exited_ok" });
    const late = stream.next();
    core.addSteps(id, 1001, 1001);
    assert.equal(((await late).value as RunStep).seqId, 1001n);
    await stream.return!(undefined);
    await until(() => core.waiting === 0, { what: "the server to let go of the cursor" });
  });
});

Deno.test("StreamRunSteps: resumes after since_seq; beyond the head it waits for that seq", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    core.addSteps(id, 1, 600);
    assertContiguous(
      await take(client.stream(method.streamRunSteps, { runId: id, sinceSeq: 250n }), 350),
      251,
    );
    const beyond = take(client.stream(method.streamRunSteps, { runId: id, sinceSeq: 602n }), 2);
    await until(() => core.waiting === 1, { what: "the stream to wait" });
    core.addSteps(id, 601, 601);
    core.addSteps(id, 602, 603);
    core.addSteps(id, 604, 604);
    assertContiguous(await beyond, 603);
  });
});

Deno.test("StreamRunSteps: below retention is OUT_OF_RANGE, naming the first seq there is", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    core.addSteps(id, 1, 10);
    core.telemetry.read = () => {
      throw new MosaicError("out_of_range", "the first seq available is 6");
    };
    await assert.rejects(
      take(client.stream(method.streamRunSteps, { runId: id, sinceSeq: 2n }), 1),
      hasCode("out_of_range", /first seq available is 6/),
    );
  });
});

Deno.test("StreamRun*: followers of a deleted run, starved ones too, end with NOT_FOUND; the next run of its id is followed from its start", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    core.addSteps(id, 1, 10);
    const behind = take(client.stream(method.streamRunSteps, { runId: id }), 11);
    const episodes = take(client.stream(method.streamRunEpisodes, { runId: id }), 1);
    const starved = client.stream(method.streamRunSteps, { runId: id }, undefined, {
      metadata: { "mosaic-credits": "2" },
    });
    const beyondCredits = take(starved, 3);
    const told = () =>
      core.registry.eventsSince(0, { runId: id, kinds: ["control"], limit: 9 }).length;
    await until(() => core.waiting === 2 && told() === 1, {
      what: "two to wait at the head, one for credits",
    });
    const gone = hasCode("not_found", /was deleted/);
    const ends = [behind, episodes, beyondCredits].map((follower) =>
      assert.rejects(follower, gone)
    );
    core.ended(id);
    await core.delete(id, true);
    executing(core);
    core.addSteps(id, 1, 12);
    await Promise.all(ends);
    assertContiguous(await take(client.stream(method.streamRunSteps, { runId: id }), 12), 1);
  });
});

Deno.test("StreamRun*: an empty run is refused, an unknown one is an open silent stream", async () => {
  await withServer(async ({ client, core }) => {
    const refused = hasCode("invalid_argument", /run_id/);
    await assert.rejects(take(client.stream(method.streamRunSteps, {}), 1), refused);
    await assert.rejects(take(client.stream(method.streamRunEpisodes, {}), 1), refused);
    const unknown = take(client.stream(method.streamRunSteps, { runId: "later" }), 1);
    await until(() => core.waiting === 1, { what: "the stream to be open" });
    core.telemetry.append("later", 1, [A_STEP], []);
    assert.equal((await unknown)[0]!.runId, "later");
  });
});

Deno.test("StreamRunEpisodes: its own seqs, with metadata", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    const episode = {
      episode: 0,
      totalReward: 9,
      steps: 9,
      terminated: true,
      truncated: false,
      metadataJson: '{"seed":1}',
      tsNs: "5",
      agentId: "a",
      workerId: "",
    };
    core.telemetry.append(id, 1, [A_STEP], [episode, {
      ...episode,
      episode: 1,
      totalReward: "Infinity",
    }]);
    const [first, second] = await take(client.stream(method.streamRunEpisodes, { runId: id }), 2);
    assert.deepEqual([first!.seqId, first!.totalReward, first!.metadataJson], [
      1n,
      9,
      '{"seed":1}',
    ]);
    assert.deepEqual([second!.seqId, second!.totalReward, second!.steps], [2n, Infinity, 9n]);
  });
});

Deno.test("1000 parked subscribers: each gets what comes, and none is left behind when they go", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    const leave = new AbortController();
    const firsts = Array.from({ length: 1000 }, async () => {
      for await (const step of client.stream(method.streamRunSteps, { runId: id }, leave.signal)) {
        return step.seqId;
      }
      return 0n;
    });
    await until(() => core.waiting === 1000, { what: "1000 cursors to wait" });
    core.addSteps(id, 1, 1);
    assert.deepEqual([...new Set(await Promise.all(firsts))], [1n]);
    leave.abort();
    await until(() => core.waiting === 0, { what: "all cursors to be gone" });
  });
});

Deno.test("WatchRuns: snapshot first, then each transition with a seq that only grows", async () => {
  await withServer(async ({ client, core }) => {
    const first = waiting(core, 1);
    const watch = client.stream(method.watchRuns, {})[Symbol.asyncIterator]();
    const snapshot = (await watch.next()).value!;
    assert.deepEqual([snapshot.runId, snapshot.status, snapshot.seqId], [
      first,
      RunStatus.INIT,
      0n,
    ]);
    core.registry.apply(first, { type: "spawned" });
    core.registry.apply(first, { type: "registered" });
    core.registry.apply(first, { type: "failed", reason: "worker_timeout" });
    const seen = [];
    for (let i = 0; i < 3; i++) seen.push((await watch.next()).value!);
    assert.deepEqual(seen.map((r) => r.status), [RunStatus.HSHK, RunStatus.RDY, RunStatus.FAULT]);
    assert.deepEqual(seen.map((r) => r.failureReason), [undefined, undefined, "worker_timeout"]);
    assert.deepEqual(seen.map((r) => r.seqId), [2n, 3n, 4n]);
    await watch.return!(undefined);

    // Resumed: no snapshot, only what came after.
    const resumed = await take(client.stream(method.watchRuns, { sinceSeq: 2n }), 2);
    assert.deepEqual(resumed.map((r) => r.seqId), [3n, 4n]);
    // A seq from another registry: the snapshot again, and it goes on from here.
    const foreign = client.stream(method.watchRuns, { sinceSeq: 999n })[Symbol.asyncIterator]();
    assert.equal((await foreign.next()).value!.status, RunStatus.FAULT);
    waiting(core, 2);
    assert.deepEqual((await foreign.next()).value!.seqId, 5n);
    await foreign.return!(undefined);
  });
});

Deno.test("WatchRuns: the filter holds for snapshot and transitions", async () => {
  await withServer(async ({ client, core }) => {
    executing(core, 1);
    const second = waiting(core, 2);
    const statusFilter = [RunStatus.INIT, RunStatus.TERM];
    const watch = client.stream(method.watchRuns, { statusFilter })[Symbol.asyncIterator]();
    assert.equal((await watch.next()).value!.runId, second);
    core.registry.apply(idOf(1), { type: "exited_ok" });
    core.registry.apply(second, { type: "spawned" });
    core.registry.apply(second, { type: "cancelled", reason: "user_cancel" });
    const ended = (await watch.next()).value!;
    assert.deepEqual([ended.runId, ended.status, ended.failureReason], [
      idOf(1),
      RunStatus.TERM,
      undefined,
    ]);
    const cancelled = (await watch.next()).value!;
    assert.deepEqual([cancelled.runId, cancelled.status, cancelled.failureReason], [
      second,
      RunStatus.TERM,
      "user_cancel",
    ]);
    await watch.return!(undefined);
  });
});

Deno.test("credits: with none left nothing comes; a grant continues from the cursor, and both are events", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    core.addSteps(id, 1, 10);
    const metadata = { "mosaic-subscriber": "tab-1" };
    const steps = client.stream(method.streamRunSteps, { runId: id }, undefined, {
      metadata: { ...metadata, "mosaic-credits": "3" },
    })[Symbol.asyncIterator]();
    const next = async () => (await steps.next()).value!.seqId;
    assert.deepEqual([await next(), await next(), await next()], [1n, 2n, 3n]);
    const fourth = next();
    const controls = () =>
      core.registry.eventsSince(0, { runId: id, limit: 1000 }).filter((e) => e.kind === "control")
        .map((e) => JSON.parse(e.dataJson));
    await until(() => controls().length === 1, { what: "the starvation to be told" });
    const control = client.duplex(method.controlStream, { metadata });
    control.send({ runId: id, event: { case: "grantSteps", value: 2 } });
    assert.deepEqual([await fourth, await next()], [4n, 5n]);
    assert.deepEqual(controls().slice(0, 2), [
      { state: "STARVED", kind: "steps" },
      { state: "RESUMED", kind: "steps" },
    ]);
    control.cancel();
    await steps.return!(undefined);

    const stranger = client.duplex(method.controlStream, {
      metadata: { "mosaic-subscriber": "other" },
    });
    stranger.send({ runId: id, event: { case: "grantSteps", value: 1 } });
    await assert.rejects(async () => {
      for await (const _ of stranger) { /* nothing */ }
    }, hasCode("failed_precondition", /waits for credits/));
  });
});

Deno.test("ControlStream: pauses, resumes and throttles, and tells what others change", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    const control = client.duplex(method.controlStream);
    const told = control[Symbol.asyncIterator]();
    control.send({ runId: id, event: { case: "pause", value: true } });
    const next = async () => (await told.next()).value!.event;
    assert.deepEqual(await next(), { case: "pause", value: true });
    assert.equal(core.registry.require(id).state, "PAUSED");
    core.resume(id);
    assert.deepEqual(await next(), { case: "resume", value: true });
    core.throttle(id, 50);
    assert.deepEqual(await next(), { case: "maxRateHz", value: 50 });
    control.send({ runId: id, event: { case: "maxRateHz", value: 0 } });
    assert.deepEqual(await next(), { case: "maxRateHz", value: 0 });
    control.send({ runId: id, event: { case: "resume", value: true } });
    control.end();
    assert.equal((await told.next()).done, true);
    assert.equal(core.calls.at(-1), `resume ${id}`);

    const unknown = client.duplex(method.controlStream);
    unknown.send({ runId: "nope", event: { case: "pause", value: true } });
    await assert.rejects(async () => {
      for await (const _ of unknown) { /* nothing */ }
    }, hasCode("not_found"));
  });
});

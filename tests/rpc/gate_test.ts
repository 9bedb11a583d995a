import assert from "node:assert/strict";
import { GrpcClient } from "../harness/grpc_client.ts";
import { SendGates } from "../../src/rpc/grpc/gate.ts";
import { StalledError } from "../../src/rpc/call/handlers.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { executing, withServer } from "./fixture.ts";

/** A socket that sends when the test says so. */
function socket() {
  const state: { sent: number | undefined } = { sent: 500 };
  return { state, sent: () => state.sent, key: {} };
}

Deno.test("gate: open up to the bound; then it waits until half of it has been sent", async () => {
  const gates = new SendGates({ connectionBytes: 1000 });
  const { state, sent, key } = socket();
  const stream = gates.open(key, sent);
  stream.wrote(999);
  assert.equal(stream.ready(), undefined);
  stream.wrote(1);
  let open = false;
  const waiting = stream.ready()!.then(() => open = true);
  state.sent = 500 + 400;
  await until(() => gates.total === 600, { what: "the sent bytes to be seen" });
  assert.equal(open, false);
  state.sent = 500 + 501;
  await waiting;
  assert.equal(gates.waiting, 0);
  stream.release();
  assert.equal(gates.total, 0);
});

Deno.test("gate: bytes of others on the connection never add up to a debt or a credit", () => {
  const gates = new SendGates({ connectionBytes: 1000 });
  const { state, sent, key } = socket();
  const stream = gates.open(key, sent);
  // Headers and pings: far more than this stream wrote.
  state.sent = 1_000_000;
  stream.wrote(1000);
  assert.equal(stream.ready(), undefined, "all was sent");
  stream.wrote(1000);
  assert.notEqual(stream.ready(), undefined, "what others sent earlier is no credit");
  stream.release();
});

Deno.test("gate: a stream that goes takes what it had not sent along; a closed connection holds nobody up", async () => {
  const gates = new SendGates({ connectionBytes: 1000 });
  const { state, sent, key } = socket();
  const first = gates.open(key, sent);
  const second = gates.open(key, sent);
  first.wrote(900);
  second.wrote(100);
  const waiting = second.ready()!;
  first.release();
  await waiting;
  second.wrote(5000);
  const dropped = second.ready()!;
  state.sent = undefined;
  await dropped;
  second.release();
  assert.equal(gates.total, 0);
});

Deno.test("gate: the bound over all connections holds, too", async () => {
  const gates = new SendGates({ connectionBytes: 1000, processBytes: 1500 });
  const [a, b] = [socket(), socket()];
  const [first, second] = [gates.open(a.key, a.sent), gates.open(b.key, b.sent)];
  first.wrote(900);
  assert.equal(first.ready(), undefined);
  second.wrote(700);
  const waiting = second.ready()!;
  b.state.sent! += 700;
  await waiting;
  first.release();
  second.release();
});

Deno.test("gate: a reader that takes nothing for the stall limit is given up", async () => {
  const gates = new SendGates({ connectionBytes: 10, stallMs: 20 });
  const { sent, key } = socket();
  const stream = gates.open(key, sent);
  stream.wrote(10);
  await assert.rejects(stream.ready()!, StalledError);
  assert.equal(gates.waiting, 0);
  stream.release();
});

Deno.test("gate: a slow reader is not given up while it takes something worth it; a trickle of others' bytes saves nobody", async () => {
  const gates = new SendGates({ connectionBytes: 100, stallMs: 20 });
  // Sends so much between any two looks, however far they are apart: far too little to be done by
  // one stall limit.
  const taking = (bytes: number) => {
    let sent = 0;
    return gates.open({}, () => sent += bytes);
  };
  const [slow, trickle] = [taking(50), taking(1)];
  slow.wrote(1100);
  trickle.wrote(1000);
  const given = assert.rejects(trickle.ready()!, StalledError);
  await slow.ready();
  await given;
  slow.release();
  trickle.release();
  assert.equal(gates.total, 0);
});

Deno.test("readers that stand still cost bounded memory, hold nobody up, and resume where they were", async () => {
  await withServer(async ({ client, core, server }) => {
    const runId = executing(core);
    // 300 MB of steps, which share their text.
    core.observationJson = JSON.stringify("x".repeat(10_000));
    core.addSteps(runId, 0, 29_999);
    const before = Deno.memoryUsage().rss;
    const clients = Array.from({ length: 4 }, () => new GrpcClient(server.address));
    const readers = clients.map((c) => c.stream(TrainerService.method.streamRunSteps, { runId }));
    try {
      for (const reader of readers) assert.equal((await reader.next()).value!.seqId, 1n);
      // Time enough for a server without bounds to send all of it.
      for (let i = 0; i < 300; i++) await client.unary(TrainerService.method.getHealth, {});
      assert.ok(core.rowsRead < 4 * 5000, `${core.rowsRead} rows were read for nobody`);
      const grown = (Deno.memoryUsage().rss - before) / 1e6;
      assert.ok(grown < 250, `the process grew by ${grown.toFixed(0)} MB`);
      // Somebody who reads is not held up.
      let last = 0n;
      for await (const step of client.stream(TrainerService.method.streamRunSteps, { runId })) {
        assert.equal(step.seqId, ++last);
        if (last === 2000n) break;
      }
      // And the ones that stood still go on without a gap.
      for (const reader of readers) {
        for (let seq = 2n; seq <= 1000n; seq++) {
          assert.equal((await reader.next()).value!.seqId, seq);
        }
      }
    } finally {
      for (const reader of readers) await reader.return();
      for (const c of clients) c.close();
    }
  });
});

Deno.test("a reader that keeps reading is never taken for one that stands still, however many messages it gets", async () => {
  await withServer(async ({ client, core }) => {
    const runId = executing(core);
    core.addSteps(runId, 1, 20_000);
    let last = 0n;
    for await (const step of client.stream(TrainerService.method.streamRunSteps, { runId })) {
      assert.equal(step.seqId, ++last);
      if (last === 20_000n) break;
    }
  }, { gate: { connectionBytes: 10_000 } });
});

Deno.test("a reader that stands still too long is told to resume", async () => {
  await withServer(async ({ client, core }) => {
    const runId = executing(core);
    core.observationJson = JSON.stringify("x".repeat(10_000));
    core.addSteps(runId, 1, 3000);
    const stalled = client.stream(TrainerService.method.streamRunSteps, { runId })
      [Symbol.asyncIterator]();
    let last = (await stalled.next()).value!.seqId;
    await until(() => core.logLines.some((line) => line.includes("read nothing")), {
      what: "the stream to be ended",
    });
    await assert.rejects(async () => {
      for (;;) {
        const { value } = await stalled.next();
        assert.equal(value!.seqId, last + 1n);
        last = value!.seqId;
      }
    }, hasCode("unavailable"));
    assert.ok(last < 3000n);
    const resumed = client.stream(TrainerService.method.streamRunSteps, { runId, sinceSeq: last });
    for await (const step of resumed) {
      assert.equal(step.seqId, ++last);
      if (last === 3000n) break;
    }
  }, { gate: { connectionBytes: 100_000, stallMs: 200 } });
});

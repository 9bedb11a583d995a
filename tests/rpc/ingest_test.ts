import assert from "node:assert/strict";
import type { StepColumns, WorkerEventRecord } from "../../src/gen/records/record_types.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../src/base/errors.ts";
import {
  type Ack,
  type DaemonMessage,
  Ingest,
  type ProxyMessageSchema,
} from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { STANDARD_BOUNDS } from "../../src/base/load_limits.ts";
import { sealedMessage } from "../../src/proxy/delivery/batches.ts";
import { type Block, CELL_COLUMNS, crcOf } from "../../src/records/step_block.ts";
import { seal, SEALED_FORM } from "../../src/records/sealed_steps.ts";
import { windowOf } from "../../src/rpc/ingest/proxy_window.ts";
import { checkIngestProtocol, INGEST_PROTOCOL } from "../../src/wire/ingest_protocol.ts";
import { turn } from "../../src/rpc/call/turns.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import {
  type AnyClient,
  executing,
  type Scene,
  testEachApiWay,
  testEachWay,
  withApi,
} from "./fixture.ts";

const encoder = new TextEncoder();
const json = (value: unknown) => encoder.encode(JSON.stringify(value));

type ProxyInit = NonNullable<
  Exclude<MessageInitShape<typeof ProxyMessageSchema>, { $typeName: string }>["message"]
>;

/** A proxy that has said hello. */
function proxyOf(client: AnyClient, runId: string, protocol = INGEST_PROTOCOL) {
  const call = client.duplex(Ingest.method.deliver);
  const answers = call[Symbol.asyncIterator]();
  const send = (message: ProxyInit) => call.send({ message });
  send({
    case: "hello",
    value: { protocol, runId, attempt: 1, proxyPid: 12n, proxyIdentity: "boot/1" },
  });
  return {
    call,
    send,
    /**
     * The daemon's next message, but for those on observed files: all runs here have one working
     * directory.
     */
    next: async () => {
      for (;;) {
        const { done, value } = await answers.next();
        const message = done ? undefined : (value as DaemonMessage).message;
        if (message?.case !== "observed") return message;
      }
    },
    batch: (from: number, to: number, fields: Record<string, unknown> = {}) =>
      send({
        case: "batch",
        value: {
          fromPosition: BigInt(from),
          toPosition: BigInt(to),
          journalSize: BigInt(to),
          ...fields,
        },
      }),
  };
}

/**
 * The next one that acknowledges more than is known: others say that the proxy waits for the disk.
 */
async function acknowledgement(proxy: ReturnType<typeof proxyOf>, beyond = 0n): Promise<Ack> {
  for (;;) {
    const message = await proxy.next();
    assert.equal(message?.case, "ack");
    const ack = message!.value as Ack;
    if (ack.position > beyond) return ack;
  }
}

/** By the way of proxies on the daemon's host: for what is decided behind the protocols. */
const testByProxysWay = (name: string, work: (scene: Scene) => Promise<void>) =>
  testEachWay(name, work, {}, ["Connect, Unix socket"]);

/** What comes by TLS is read by another connection first. */
const testByEitherReader = (name: string, work: (scene: Scene) => Promise<void>) =>
  testEachWay(name, work, {}, ["Connect, Unix socket", "Connect, TLS"]);

testEachApiWay(
  "Deliver: hello is welcomed with position, window and what is wanted; batches are stored, then acknowledged",
  async ({ client, core }) => {
    const runId = executing(core);
    core.registry.update(runId, { maxRateHz: 40 });
    const proxy = proxyOf(client, runId);
    const welcome = await proxy.next();
    assert.equal(welcome?.case, "welcome");
    if (welcome?.case === "welcome") {
      assert.equal(welcome.value.journalPosition, 0n);
      assert.equal(welcome.value.windowBytes, 256n << 10n);
      assert.equal(welcome.value.control?.maxRateHz, 40);
    }
    const session = core.sessions[0]!;
    assert.deepEqual(session.hello.proxy, { pid: 12, identity: "boot/1" });
    assert.equal(session.hello.worker, null);

    const steps = {
      n: 2,
      step: [4, 5],
      reward: [1, "NaN"],
      observationJson: ["[1]", "[2]"],
      tsNs: ["8", "9"],
    };
    const episodes = [{
      episode: 0,
      totalReward: 9,
      steps: 9,
      terminated: true,
      truncated: false,
      metadataJson: "",
    }];
    const events = [{ kind: "run_started", dataJson: "{}", tsNs: "1" }];
    proxy.batch(0, 100, {
      stepsJson: json(steps),
      episodesJson: json(episodes),
      eventsJson: json(events),
      otherLines: 3n,
      malformedLines: 1n,
      malformedSamples: ["{torn"],
      violations: { "step: reward": 2n },
    });
    assert.deepEqual((await proxy.next())?.value, {
      $typeName: "mosaic.v1.Ack",
      position: 100n,
      windowBytes: BigInt(STANDARD_BOUNDS.windowBytes),
      storeFull: false,
    });
    const { batch, journalSize, malformed } = session.batches[0]!;
    assert.deepEqual(batch.events, events);
    assert.deepEqual([batch.otherLines, batch.malformedLines, batch.violations], [3, 1, {
      "step: reward": 2,
    }]);
    assert.deepEqual([journalSize, malformed], [100, ["{torn"]]);
    assert.deepEqual(core.telemetry.read(runId, "steps", 0, 9).map((s) => [s.seq, s.step]), [
      [1, 4],
      [2, 5],
    ]);

    // Delivered again: nothing is stored twice, and the position is acknowledged.
    proxy.batch(0, 100, { stepsJson: json(steps) });
    assert.deepEqual((await proxy.next())?.value, {
      $typeName: "mosaic.v1.Ack",
      position: 100n,
      windowBytes: BigInt(STANDARD_BOUNDS.windowBytes),
      storeFull: false,
    });
    assert.equal(core.telemetry.head(runId, "steps"), 2);

    proxy.send({ case: "heartbeat", value: { journalSize: 100n } });
    proxy.send({ case: "control", value: { paused: true, maxRateHz: 3, selfPaused: "backlog" } });
    proxy.send({ case: "exit", value: { code: 3, finalPosition: 100n, stderrTail: ["boom"] } });
    assert.equal((await proxy.next())?.case, "heartbeatAck");
    assert.equal((await proxy.next())?.case, "exitAck");
    assert.equal(session.heartbeats, 1);
    assert.deepEqual(session.applied, { paused: true, maxRateHz: 3, selfPaused: "backlog" });
    assert.deepEqual([session.exited?.code, session.exited?.stderrTail], [3, ["boom"]]);
    proxy.call.end();
    assert.equal(await proxy.next(), undefined);
    await until(() => session.isClosed, { what: "the session to be closed" });
  },
);

testEachApiWay(
  "Deliver: a batch of an observed file is stored, then acknowledged; one without a cursor is refused",
  async ({ client, core }) => {
    const runId = executing(core);
    const proxy = proxyOf(client, runId);
    assert.equal((await proxy.next())?.case, "welcome");
    const cursor = { name: "/w/metrics.csv", label: "metrics.csv", serial: 1n, state: "{}" };
    const events = [{ kind: "metrics", dataJson: '{"global_step":7,"loss":"NaN"}', tsNs: "1" }];
    proxy.send({ case: "sourceBatch", value: { cursor, eventsJson: json(events), position: 30n } });
    const answer = await proxy.next();
    assert.deepEqual([answer?.case, (answer?.value as { position: bigint }).position], [
      "sourceAck",
      30n,
    ]);
    const [stored] = core.sessions[0]!.sources;
    assert.deepEqual([stored!.source, stored!.from, stored!.to], [
      { name: cursor.name, label: cursor.label, state: "{}" },
      0,
      1,
    ]);
    assert.deepEqual(stored!.events, events);
    proxy.send({ case: "sourceBatch", value: { eventsJson: json(events), position: 60n } });
    await assert.rejects(
      proxy.next(),
      hasCode("invalid_argument", /no cursor, or one without a name or a serial/),
    );
  },
);

testEachApiWay("Deliver: a proxy killed by a signal has no code", async ({ client, core }) => {
  const proxy = proxyOf(client, executing(core));
  await proxy.next();
  proxy.send({ case: "exit", value: { signal: "SIGKILL", lost: true } });
  assert.equal((await proxy.next())?.case, "exitAck");
  assert.deepEqual([core.sessions[0]!.exited?.code, core.sessions[0]!.exited?.signal], [
    null,
    "SIGKILL",
  ]);
  proxy.call.end();
});

Deno.test("Deliver: another major version is refused with both named; another minor is not", async () => {
  await withApi("Connect, TCP", async ({ client, core }) => {
    const runId = executing(core);
    const other = proxyOf(client, runId, "mosaic-ingest/2.0");
    await assert.rejects(
      other.next(),
      hasCode("failed_precondition", /mosaic-ingest\/2\.0.*mosaic-ingest\/1\.0/),
    );
    const newer = proxyOf(client, runId, "mosaic-ingest/1.9");
    assert.equal((await newer.next())?.case, "welcome");
    newer.call.cancel();
    await assert.rejects(proxyOf(client, runId, "").next(), hasCode("failed_precondition"));
  });
  assert.throws(
    () => checkIngestProtocol("mosaic-ingest/1.0", "mosaic-ingest/2.0"),
    hasCode("failed_precondition"),
  );
});

testEachApiWay(
  "Deliver: batch before hello, second hello and an unknown run are refused",
  async ({ client, core }) => {
    const runId = executing(core);
    const early = client.duplex(Ingest.method.deliver);
    early.send({ message: { case: "batch", value: {} } });
    await assert.rejects(
      early[Symbol.asyncIterator]().next(),
      hasCode("failed_precondition", /hello first/),
    );
    await assert.rejects(proxyOf(client, "nope").next(), hasCode("not_found"));
    await assert.rejects(proxyOf(client, "").next(), hasCode("invalid_argument", /run_id/));

    const twice = proxyOf(client, runId);
    await twice.next();
    twice.send({ case: "hello", value: { protocol: INGEST_PROTOCOL, runId } });
    await assert.rejects(twice.next(), hasCode("failed_precondition", /second hello/));
  },
);

testByProxysWay(
  "Deliver: batches that cannot be read are passed over, with an event that says where and why",
  async ({ client, core }) => {
    const runId = executing(core);
    const events: WorkerEventRecord[] = [];
    core.beforeStored = (batch) => events.push(...batch.events);
    const proxy = proxyOf(client, runId);
    await proxy.next();
    proxy.batch(0, 5, { stepsJson: encoder.encode("{") });
    assert.equal((await proxy.next())?.case, "ack");
    proxy.batch(5, 9, { stepsJson: json({ n: 2, step: [1] }) });
    assert.equal((await proxy.next())?.case, "ack");
    proxy.batch(9, 12, { stepsJson: json({ n: 1, step: [1] }) });
    assert.equal((await proxy.next())?.case, "ack");
    proxy.batch(12, 15, { episodesJson: json([null]) });
    assert.equal((await proxy.next())?.case, "ack");
    proxy.batch(15, 18, { eventsJson: json({}) });
    assert.equal((await proxy.next())?.case, "ack");
    assert.equal(core.telemetry.head(runId, "steps"), 1);
    const told = events.map(({ kind, dataJson }) => [kind, JSON.parse(dataJson)]);
    assert.deepEqual(told.map(([kind, { from, to, records }]) => [kind, from, to, records]), [
      ["records_refused", 0, 5, null],
      ["records_refused", 5, 9, null],
      ["records_refused", 12, 15, null],
      ["records_refused", 15, 18, null],
    ]);
    assert.match(told[0]![1].reason, /steps_json is not JSON/);
    assert.match(told[1]![1].reason, /column step has 1 of 2/);
    assert.match(told[2]![1].reason, /episodes_json is not an array of objects/);
    assert.match(told[3]![1].reason, /events_json is not an array of objects/);
  },
);

const SEALABLE = { n: 300, reward: Array.from({ length: 300 }, (_, i) => i / 7), agentId: "a" };

testEachApiWay("Deliver: a sealed block is stored", async ({ client, core }) => {
  const runId = executing(core);
  const proxy = proxyOf(client, runId);
  const welcome = await proxy.next();
  assert.equal(welcome?.case === "welcome" && welcome.value.sealedForm, SEALED_FORM);
  proxy.batch(0, 10, { sealedSteps: sealedMessage(seal(SEALABLE)!) });
  assert.equal((await proxy.next())?.case, "ack");
  assert.equal(core.telemetry.head(runId, "steps"), SEALABLE.n);
});

testByProxysWay(
  "Deliver: a sealed block that is not right ends the stream, and the next connection takes columns",
  async ({ client, core }) => {
    const columns = SEALABLE;
    const rows = Array.from({ length: 300 }, (_, i) => i);
    const counting = {
      ...columns,
      episode: rows.map((i) => Math.floor(i / 100)),
      step: rows.map((i) => i % 100),
    };
    const sealed = () => sealedMessage(seal(columns)!);
    const wrong: [string, ReturnType<typeof sealed>, RegExp][] = [
      ["a flipped bit", { ...sealed(), hot: sealed().hot.replace("0.1", "0.2") }, /checksum/],
      ["another count", { ...sealed(), n: 299 }, /checksum/],
      ["too many steps", { ...sealed(), n: 5000 }, /number of steps/],
      ["a row too few", resealed({ hot: sealed().hot.replace(/,\[[^\]]*\]\]$/, "]") }), /rows/],
      ["no JSON for SQL", resealed({ hot: sealed().hot.replace("[[", "[[+") }), /rows/],
      ["no head", { ...sealed(), head: "[" }, /not JSON/],
      ["half an episode", resealed({ cells: cellsWith("episode", 0.5) }), /rows/],
      ["a column where another is", resealed({ cells: cellsWith("step", "$[0]") }), /rows/],
      ["a column that no row has", resealed({ cells: cellsWith("step", "$[1]") }), /rows/],
      ["five flags", resealed({ cells: cellsWith("flags", 5) }), /rows/],
      [
        "a number of a million digits",
        resealed({ hot: sealed().hot.replace("[0]", `[${"1".repeat(1e6)}]`) }),
        /rows/,
      ],
      ["a time of no step", resealed({ cells: cellsWith("ts", 7) }), /rows|times/],
      ["times that run backwards", resealed({ fromNs: "9", toNs: "5" }), /times/],
      ["a span that begins elsewhere", inSpans("[[100,", "[[101,"), /rows from 101 on behind 100/],
      ["a span of half an episode", inSpans("[[100,1,", "[[100,1.5,"), /rows/],
      ["a span without its head", inSpans("[[100,1,0],", "["), /rows/],
      ["a row too few in spans", inSpans(/,\[[^\]]*\]\]\]\]$/, "]]]"), /299 of 300 rows/],
      ["a row that has nothing", inSpans("[[0,0,0],[[0],", "[[0,0,0],[0,"), /rows/],
      ["texts that are longer packed than open", resealed({ body: new Uint8Array(1e6) }), /texts/],
    ];
    function cellsWith(name: string, cell: number | string) {
      return seal(columns)!.block.cells.map((now, i) => CELL_COLUMNS[i] === name ? cell : now);
    }
    function inSpans(from: string | RegExp, to: string) {
      const { hot } = seal(counting)!.block;
      assert.notEqual(hot.replace(from, to), hot, hot);
      return resealed({ hot: hot.replace(from, to) }, counting);
    }
    function resealed(part: Partial<Block>, of: StepColumns = columns) {
      const one = seal(of)!;
      const block = { ...one.block, ...part };
      return sealedMessage({ ...one, block: { ...block, crc: crcOf(block) } });
    }
    for (const [i, [what, sealedSteps, why]] of wrong.entries()) {
      const run = executing(core, i + 1);
      const first = proxyOf(client, run);
      await first.next();
      first.batch(0, 10, { sealedSteps });
      await assert.rejects(first.next(), hasCode("aborted", why), what);
      assert.equal(core.telemetry.head(run, "steps"), 0);
      const again = proxyOf(client, run);
      const second = await again.next();
      assert.equal(second?.case === "welcome" && second.value.sealedForm, "", what);
      again.batch(0, 10, { stepsJson: json(columns) });
      assert.equal((await again.next())?.case, "ack");
      assert.equal(core.telemetry.head(run, "steps"), 300);
    }
  },
);

testEachApiWay(
  "Deliver: a gap ends the stream with ABORTED; the next welcome says where to go on",
  async ({ client, core }) => {
    const runId = executing(core);
    const proxy = proxyOf(client, runId);
    await proxy.next();
    proxy.batch(0, 10);
    assert.equal((await proxy.next())?.case, "ack");
    proxy.batch(20, 30);
    await assert.rejects(proxy.next(), hasCode("aborted", /stored up to 10/));
    const again = proxyOf(client, runId);
    const welcome = await again.next();
    assert.equal(welcome?.case === "welcome" && welcome.value.journalPosition, 10n);
    again.call.cancel();
  },
);

testByProxysWay(
  "Deliver: while the disk is full the batch is kept and the run counts as alive; then it is acknowledged",
  async ({ client, core }) => {
    const runId = executing(core);
    const proxy = proxyOf(client, runId);
    await proxy.next();
    core.full = true;
    proxy.batch(0, 10, { stepsJson: json({ n: 1 }) });
    const session = core.sessions[0]!;
    await until(() => session.heartbeats > 0, { what: "the batch to be tried again" });
    core.full = false;
    const held = await proxy.next();
    assert.deepEqual(held?.case === "ack" && [held.value.position, held.value.storeFull], [
      0n,
      true,
    ]);
    assert.deepEqual(await acknowledgement(proxy), {
      $typeName: "mosaic.v1.Ack",
      position: 10n,
      windowBytes: BigInt(STANDARD_BOUNDS.windowBytes),
      storeFull: false,
    });
    assert.equal(session.batches.length, 1);
    proxy.call.cancel();
  },
);

testByProxysWay(
  "Deliver: while the disk is full, a waiting batch of an observed file does not end the hold of the worker",
  async ({ client, core }) => {
    const proxy = proxyOf(client, executing(core));
    await proxy.next();
    const session = core.sessions[0]!;
    core.full = true;
    proxy.batch(0, 10, { stepsJson: json({ n: 1 }) });
    const first = await proxy.next();
    assert.deepEqual(first?.case === "ack" && [first.value.position, first.value.storeFull], [
      0n,
      true,
    ]);
    const cursor = { name: "/w/metrics.csv", label: "metrics.csv", serial: 1n, state: "{}" };
    const events = [{ kind: "metrics", dataJson: '{"global_step":7,"loss":1}', tsNs: "1" }];
    proxy.send({ case: "sourceBatch", value: { cursor, eventsJson: json(events), position: 30n } });
    await until(() => session.sources.length > 1, { what: "the file's batch to be tried again" });
    core.full = false;
    const holds: boolean[] = [];
    for (let stored = false; !stored;) {
      const message = await proxy.next();
      if (message?.case !== "ack") continue;
      stored = message.value.position > 0n;
      if (!stored) holds.push(message.value.storeFull);
    }
    assert.ok(holds.length > 1 && holds.every((hold) => hold), `${holds}`);
    proxy.call.cancel();
  },
);

testByProxysWay(
  "Deliver: what is in force at the worker waits for the registry, too, and the proxy stays connected",
  async ({ client, core }) => {
    const proxy = proxyOf(client, executing(core));
    await proxy.next();
    const session = core.sessions[0]!;
    const apply = session.controlApplied.bind(session);
    session.controlApplied = () => {
      throw new MosaicError("unavailable", "the disk is full");
    };
    proxy.send({ case: "control", value: { paused: true, maxRateHz: 0, selfPaused: "disk" } });
    await until(() => session.heartbeats > 0, { what: "the control to be tried again" });
    session.controlApplied = apply;
    proxy.batch(0, 10, { stepsJson: json({ n: 1 }) });
    const waits = await proxy.next();
    assert.deepEqual(waits?.case === "ack" && [waits.value.position, waits.value.storeFull], [
      0n,
      false,
    ]);
    assert.equal((await acknowledgement(proxy)).position, 10n);
    assert.deepEqual(session.applied, { paused: true, maxRateHz: 0, selfPaused: "disk" });
    proxy.call.cancel();
  },
);

testByProxysWay(
  "Deliver: batches that came in an outage are stored one after the other when it is over, without a wait for each",
  async ({ client, core }) => {
    const proxy = proxyOf(client, executing(core));
    await proxy.next();
    const session = core.sessions[0]!;
    core.full = true;
    for (let at = 0; at < 80; at += 10) proxy.batch(at, at + 10, { stepsJson: json({ n: 1 }) });
    // Each further try of the one at the head is preceded by a heartbeat.
    await until(() => session.heartbeats > 0, { what: "the first batch to be tried again" });
    core.full = false;
    const before = session.heartbeats;
    for (let at = 10; at <= 80; at += 10) {
      assert.equal((await acknowledgement(proxy, BigInt(at - 10))).position, BigInt(at));
    }
    assert.ok(session.heartbeats <= before + 1, `${session.heartbeats - before} further waits`);
    proxy.call.cancel();
  },
);

testEachApiWay(
  "Deliver: the daemon's control and stop reach the proxy; a newer connection takes the older's place",
  async ({ client, core }) => {
    const runId = executing(core);
    const proxy = proxyOf(client, runId);
    await proxy.next();
    core.sessions[0]!.link.control({ paused: true, maxRateHz: 7, workerHears: false });
    core.sessions[0]!.link.stop(2.5);
    const control = await proxy.next();
    assert.deepEqual(
      control?.case === "control" && [control.value.paused, control.value.maxRateHz],
      [true, 7],
    );
    const stop = await proxy.next();
    assert.equal(stop?.case === "stop" && stop.value.graceSeconds, 2.5);
    const newer = proxyOf(client, runId);
    assert.equal((await newer.next())?.case, "welcome");
    await assert.rejects(proxy.next(), hasCode("aborted", /newer proxy/));
    newer.call.cancel();
  },
);

/** Work that takes the thread for some milliseconds, as a batch does. */
function busy(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end) { /* working */ }
}

Deno.test("turns of several runs alternate, and others have theirs in between", async () => {
  const order: string[] = [];
  const run = async (name: string, jobs: number) => {
    for (let i = 0; i < jobs; i++) {
      await turn();
      busy(2);
      order.push(name);
    }
  };
  let looks = 0;
  const other = setInterval(() => looks++, 1);
  await Promise.all([run("flood", 60), run("calm", 5)]);
  clearInterval(other);
  const lastCalm = order.lastIndexOf("calm");
  assert.ok(lastCalm < 20, `the calm run was done after ${lastCalm} jobs`);
  assert.ok(looks > 0, "nothing else had a turn");
});

testByEitherReader(
  "a unary call beside proxies that flood is answered after a few batches, however many wait",
  async ({ client, core }) => {
    let stored = 0;
    core.beforeStored = () => {
      busy(1);
      stored++;
    };
    const batches = 200;
    const proxies = Array.from({ length: 4 }, (_, i) => proxyOf(client, executing(core, i + 1)));
    for (const proxy of proxies) await proxy.next();
    const acknowledged = proxies.map(async (proxy) => {
      for (let i = 0; i < batches; i++) proxy.batch(i, i + 1);
      for (let i = 0; i < batches; i++) assert.equal((await proxy.next())?.case, "ack");
    });
    await until(() => stored > 0, { what: "the flood to begin" });
    const waited: number[] = [];
    while (stored < batches * proxies.length / 2) {
      const before = stored;
      await client.unary(TrainerService.method.getHealth, {});
      waited.push(stored - before);
    }
    await Promise.all(acknowledged);
    const most = Math.max(...waited);
    assert.ok(
      most <= 100,
      `a call was answered after ${most} of ${batches * proxies.length} batches`,
    );
    proxies.forEach((proxy) => proxy.call.cancel());
  },
);

testByEitherReader(
  "Deliver: a flood of batches does not keep unary calls from being answered",
  async ({ client, core }) => {
    const runId = executing(core);
    const proxy = proxyOf(client, runId);
    await proxy.next();
    const columns = json({
      n: 500,
      observationJson: Array.from({ length: 500 }, () => "[0.1,0.2,0.3]"),
    });
    const batches = 200;
    for (let i = 0; i < batches; i++) proxy.batch(i * 10, i * 10 + 10, { stepsJson: columns });
    let answered = 0;
    const acks = (async () => {
      for (let i = 0; i < batches; i++) assert.equal((await proxy.next())?.case, "ack");
    })();
    let done = false;
    void acks.finally(() => done = true);
    while (!done) {
      await client.unary(TrainerService.method.getHealth, {});
      answered++;
    }
    await acks;
    assert.ok(answered > 1, `${answered} calls were answered meanwhile`);
    assert.equal(core.telemetry.head(runId, "steps"), 500 * batches);
    proxy.call.cancel();
  },
);

Deno.test("ingest: proxies that are behind share what may be under way, those that are not take no part", () => {
  const many = (count: number, journalSize: number) =>
    Array.from({ length: count }, () => ({ journalSize, position: 1 }));
  const behind = (count: number) => many(count, 64 * 1024 + 2);
  const done = 1;
  const [torn, fullOfLeast] = [9, 64 * 1024 + 1];
  const MiB = 1 << 20;
  assert.equal(windowOf(4 * MiB, []), 4 * MiB);
  assert.equal(windowOf(4 * MiB, [...behind(4), ...many(500, done)]), 4 * MiB);
  assert.equal(
    windowOf(4 * MiB, [...behind(1), ...many(500, torn), ...many(500, fullOfLeast)]),
    4 * MiB,
  );
  assert.equal(windowOf(4 * MiB, behind(16)), MiB);
  assert.equal(windowOf(100 * 1024, behind(16)), 100 * 1024, "never more than one may");
  assert.equal(windowOf(4 * MiB, behind(5000)), 64 * 1024, "never too little to go on");
});

import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { StepColumnsBuilder } from "../../src/gen/records/step_columns.ts";
import { buildBatch, sealedMessage } from "../../src/proxy/delivery/batches.ts";
import { checked, seal, SEALED_FORM } from "../../src/records/sealed_steps.ts";
import { create } from "@bufbuild/protobuf";
import { SealedStepsSchema } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { sealedOf } from "../../src/rpc/ingest/ingest_messages.ts";
import { DaemonAddress } from "../../src/proxy/delivery/daemon_address.ts";
import { Delivery } from "../../src/proxy/delivery/delivery.ts";
import type { Event, Result } from "../../src/proxy/state/events_and_effects.ts";
import { Journal, type JournalChunk } from "../../src/journal/journal.ts";
import { openIngest } from "../../src/proxy/delivery/ingest_stream.ts";
import { JournalFile } from "../../src/journal/journal_file.ts";
import { createLogger } from "../../src/base/log.ts";
import { EventQueue } from "../../src/proxy/state/queue.ts";
import { type Edges, ProxyLoop } from "../../src/proxy/run_proxy.ts";
import type { Settings } from "../../src/proxy/state/state.ts";
import { Lines } from "../../src/readers/lines/lines.ts";
import { parseLine } from "../../src/readers/lines/parse_line.ts";
import { until } from "../harness/wait.ts";
import { FakeDaemon } from "./fake_daemon.ts";
import { inertEdges, SETTINGS } from "./inert_edges.ts";
import { RUN } from "./scene.ts";

const CONTEXT = { agentId: "a", workerId: "" };

Deno.test("batch: counts and samples what is no record", () => {
  const torn = '{"type":"step","reward":"high","note":"' + "x".repeat(300) + '"}';
  const chunk = {
    from: 10,
    to: 90,
    lines: Lines.of("plain", "", " ", torn, torn, torn, torn, '{"event":"paused"}'),
    overlong: 0,
  };
  const { message, steps, eventKinds } = buildBatch(chunk, { context: CONTEXT });
  assert.equal(steps, 0);
  assert.deepEqual(eventKinds, ["paused"]);
  assert.deepEqual([message.fromPosition, message.toPosition], [10n, 90n]);
  assert.deepEqual([message.otherLines, message.malformedLines], [1n, 4n]);
  assert.equal(message.malformedSamples!.length, 3);
  assert.equal(message.malformedSamples![0]!.length, 200);
  assert.equal(message.stepsJson!.length, 0);
});

Deno.test("batch: objects of processes that printed at once are each a record", () => {
  const step = (n: number) => `{"type":"step","step_index":${n},"reward":NaN}`;
  const lines = Lines.of(
    step(1) + step(2),
    "",
    "",
    `${step(3)} {"step":4,"loss":2}{"type":"episode"}`,
    step(5) + "x",
  );
  const { message, steps, eventKinds } = buildBatch({ from: 0, to: 9, lines, overlong: 0 }, {
    context: CONTEXT,
  });
  assert.deepEqual([steps, eventKinds, message.malformedLines, message.otherLines], [
    3,
    ["metrics"],
    1n,
    0n,
  ]);
  assert.equal(JSON.parse(new TextDecoder().decode(message.episodesJson)).length, 1);
});

Deno.test("batch: lines that are alike become the block that their records become", () => {
  const texts = Array.from({ length: 600 }, (_, i) => {
    const [observation, info] = [
      i % 50 === 7 ? '"é"' : `[${i / 7}, ${Math.fround(i / 3)}]`,
      i % 9 ? "" : ',"q":"\\u0000"',
    ];
    return `{"type":"step","step":${i % 40},"action":${
      i % 3
    },"observation":${observation},"reward":${i / 4}${info}}`;
  });
  const strings = new StepColumnsBuilder<string, string[]>(() => []);
  for (const text of texts) {
    const parsed = parseLine(text, CONTEXT);
    if (parsed.type === "step") strings.add(parsed.step);
  }
  const chunk = { from: 0, to: 1, lines: Lines.of(...texts), overlong: 0 };
  const { message } = buildBatch(chunk, { context: CONTEXT, sealedForm: SEALED_FORM });
  assert.deepEqual(message.sealedSteps, sealedMessage(seal(strings.take())!));
});

Deno.test("batch: steps are a block where there are enough and the daemon takes blocks of this form, else columns", () => {
  const lines = (n: number, agent = (_: number) => "a") =>
    Lines.of(
      ...Array.from({ length: n }, (_, i) =>
        `{"type":"step","step":${i},"agent_id":"${agent(i)}","reward":0.5}`),
    );
  const built = (its: Lines, sealedForm: string) =>
    buildBatch({ from: 0, to: 1, lines: its, overlong: 0 }, { context: CONTEXT, sealedForm })
      .message;
  const block = built(lines(300), SEALED_FORM);
  assert.equal(block.sealedSteps?.n, 300);
  assert.equal(block.stepsJson?.length, 0);
  const several = lines(300, (i) => `agent_${i % 2}`);
  const large = (mib: number) =>
    Lines.of(`{"type":"step","observation":"${"x".repeat(mib << 20)}"}`);
  assert.ok(
    checked(sealedOf(create(SealedStepsSchema, built(large(7), SEALED_FORM).sealedSteps!))),
  );
  for (
    const message of [
      built(lines(300), ""),
      built(lines(300), "2"),
      built(lines(20), SEALED_FORM),
      built(several, SEALED_FORM),
      // The daemon would refuse it, and take no block from this proxy any more.
      built(large(9), SEALED_FORM),
    ]
  ) {
    assert.equal(message.sealedSteps, undefined);
    assert.ok(message.stepsJson!.length > 0);
  }
});

Deno.test("batch: an overlong line and a record too large for a message are counted as malformed", () => {
  const skipped = buildBatch({ from: 0, to: 99, lines: Lines.of(), overlong: 1 }, {
    context: CONTEXT,
  });
  assert.equal(skipped.message.malformedLines, 1n);
  assert.match(skipped.message.malformedSamples![0]!, /99 bytes or more is too long/);
  const line = `{"type":"step","action":"${"\\\\".repeat(500)}"}`;
  const large = buildBatch({ from: 0, to: line.length, lines: Lines.of(line), overlong: 0 }, {
    context: CONTEXT,
    maxRecordBytes: 1000,
  });
  assert.equal(large.message.malformedLines, 1n);
  assert.equal(large.message.stepsJson!.length, 0);
});

Deno.test("event queue: what a handler puts comes after what was there, and a failure ends it", async () => {
  const queue = new EventQueue<number>();
  const handled: number[] = [];
  queue.put(1);
  queue.put(2);
  const run = queue.run((event) => {
    if (event === 1) queue.put(3);
    handled.push(event);
    if (event === 4) throw new Error("defect");
  });
  assert.deepEqual(handled, [1, 2, 3]);
  queue.put(4);
  queue.put(5);
  await assert.rejects(run, /defect/);
  assert.deepEqual(handled, [1, 2, 3, 4]);
});

Deno.test("daemon address: a restarted daemon announces itself; only the announced one may refuse", () => {
  const path = Deno.makeTempFileSync();
  try {
    const announced = { listen: "0.0.0.0:6", http: "0.0.0.0:7", socket: "/run/d.sock" };
    Deno.writeTextFileSync(path, JSON.stringify(announced));
    const address = new DaemonAddress("127.0.0.1:5", path);
    assert.deepEqual([address.current, address.isAnnounced()], ["127.0.0.1:5", false]);
    address.refresh();
    assert.deepEqual([address.current, address.isAnnounced()], ["127.0.0.1:7", true]);
    const given = { "unix:/old.sock": "unix:/run/d.sock", "https://far:5": "https://127.0.0.1:7" };
    for (const [target, found] of Object.entries(given)) {
      const other = new DaemonAddress(target, path);
      other.refresh();
      assert.equal(
        other.current,
        found,
        "it is sought as it was given: by its socket, or with TLS",
      );
    }
    Deno.writeTextFileSync(path, JSON.stringify({ ...announced, http: "" }));
    assert.equal(address.isAnnounced(), false, "a daemon that listens on no port");
    Deno.writeTextFileSync(path, "torn");
    assert.equal(address.isAnnounced(), false);
    address.refresh();
    assert.equal(address.current, "127.0.0.1:5");
    assert.equal(new DaemonAddress("x:1", "").isAnnounced(), true);
  } finally {
    Deno.removeSync(path);
  }
});

const open = (target: string) =>
  openIngest({ target, token: undefined, tls: undefined, serverName: undefined });

/** A proxy of a journal of two steps, whose worker has ended with 0. */
async function withDelivery(
  { openStream = open, ...settings }: Partial<Settings> & { openStream?: typeof open },
  test: (daemon: FakeDaemon, run: () => Promise<Result>) => Promise<void>,
): Promise<void> {
  const daemon = new FakeDaemon();
  daemon.start();
  const path = Deno.makeTempFileSync();
  Deno.writeTextFileSync(path, '{"type":"step","step_index":0}\n{"type":"step","step_index":1}\n');
  const journal = new Journal(new JournalFile(path));
  const queue = new EventQueue<Event>();
  const log = createLogger({ sinks: [] });
  const exit = { code: 0, signal: "", endedAt: null, spawnError: "" };
  const delivery = new Delivery(
    {
      address: new DaemonAddress(daemon.target, ""),
      hello: { runId: RUN, attempt: 1 },
      load: () =>
        Promise.resolve({
          open: openStream,
          buildBatch: (chunk: JournalChunk) => buildBatch(chunk, { context: CONTEXT }),
        }),
    },
    {
      journal,
      files: undefined,
      uploads: () => Promise.reject(new Error("no files were asked for")),
    },
    queue,
    log,
  );
  const edges: Edges = { ...inertEdges(), delivery, written: () => journal.size() };
  edges.worker.start = () => {
    queue.put({ tag: "worker_started", leader: undefined, inherited: undefined });
    queue.put({ tag: "worker_exited", end: { exit, stderrTail: [] } });
    return Promise.resolve();
  };
  const loop = new ProxyLoop({ ...SETTINGS, ...settings }, queue, edges);
  try {
    await test(daemon, async () => (await loop.run()).result);
  } finally {
    queue.close();
    journal.close();
    await daemon.stop();
    Deno.removeSync(path);
  }
}

Deno.test("delivery: a connection that answers nothing is given up for a new one", () =>
  withDelivery({ answerTimeoutMs: 1000 }, async (daemon, run) => {
    daemon.silent = true;
    const delivered = run();
    await until(() => daemon.hellos.length > 1, { what: "a second connection" });
    daemon.silent = false;
    assert.deepEqual(await delivered, { type: "done" });
    assert.deepEqual(daemon.steps.map((s) => s.step), [0, 1]);
    assert.equal(daemon.exit?.code, 0);
  }));

Deno.test("delivery: a token that is refused again and again after the worker's end ends it", () =>
  withDelivery({ refusedTokenTries: 3 }, async (daemon, run) => {
    daemon.refusal = new MosaicError("unauthenticated", "no such session");
    assert.deepEqual(await run(), { type: "refused", reason: "no such session" });
    assert.equal(daemon.hellos.length, 3);
  }));

Deno.test("delivery: what is wrong before the daemon was asked is not its answer", async () => {
  let tries = 0;
  const broken = (target: string) => {
    if (tries++ < 2) throw new MosaicError("failed_precondition", "no certificate");
    return open(target);
  };
  await withDelivery({ openStream: broken }, async (daemon, run) => {
    assert.deepEqual(await run(), { type: "done" });
    assert.equal(daemon.steps.length, 2);
  });
});

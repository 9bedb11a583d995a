import assert from "node:assert/strict";
import { JOURNAL_HEADER } from "../../src/journal/journal_header.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { LineRate } from "../../src/journal/line_rate.ts";
import { openRegular } from "../../src/os/files/untrusted.ts";
import { tailOffset } from "../../src/rpc/mosaic/log_stream.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { type AnyClient, executing, testEachApiWay } from "./fixture.ts";

const { method } = Mosaic;
const decoder = new TextDecoder();

/** Seqs of everything the stream gives until it ends. */
async function seqsOf(client: AnyClient, request: Record<string, unknown>): Promise<number[]> {
  const seqs: number[] = [];
  for await (const batch of client.stream(method.streamTelemetry, request)) {
    const lines = decoder.decode(batch.jsonl).trimEnd().split("\n").map((line) =>
      JSON.parse(line).seq
    );
    assert.deepEqual([lines[0], lines.at(-1)], [Number(batch.firstSeq), Number(batch.lastSeq)]);
    seqs.push(...lines);
  }
  return seqs;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

testEachApiWay(
  "StreamTelemetry: what there is, from since_seq, at most limit",
  async ({ client, core }) => {
    const runId = executing(core);
    core.addSteps(runId, 1, 700);
    assert.deepEqual(await seqsOf(client, { run: "@last", kind: "steps" }), range(1, 700));
    assert.deepEqual(
      await seqsOf(client, { run: runId, kind: "steps", sinceSeq: 690n }),
      range(691, 700),
    );
    assert.deepEqual(
      await seqsOf(client, { run: runId, kind: "steps", sinceSeq: 9n, limit: 300n }),
      range(10, 309),
    );
    assert.deepEqual(await seqsOf(client, { run: runId, kind: "episodes" }), []);
    await assert.rejects(
      seqsOf(client, { run: runId, kind: "frames" }),
      hasCode("invalid_argument", /frames.*steps/),
    );
    await assert.rejects(seqsOf(client, { run: "nope", kind: "steps" }), hasCode("not_found"));
  },
);

testEachApiWay(
  "StreamTelemetry: following ends when the run has ended and all was sent",
  async ({ client, core }) => {
    const runId = executing(core);
    core.addSteps(runId, 1, 10);
    const following = seqsOf(client, { run: runId, kind: "steps", follow: true });
    await until(() => core.waiting === 1, { what: "the follower to wait" });
    core.addSteps(runId, 1, 1000);
    core.registry.apply(runId, { type: "exited_ok" });
    assert.deepEqual(await following, range(1, 1010));
    assert.deepEqual(await seqsOf(client, { run: runId, kind: "episodes", follow: true }), []);
  },
);

testEachApiWay(
  "StreamTelemetry: following goes on over a retry; a deleted run ends it, and another of its id is none of it",
  async ({ client, core }) => {
    const runId = executing(core);
    const following = seqsOf(client, { run: runId, kind: "steps", follow: true });
    await until(() => core.waiting === 1, { what: "the follower to wait" });
    core.ended(runId, { code: 1 });
    core.retry(runId);
    core.begun(runId);
    core.addSteps(runId, 1, 5);
    core.cancel(runId);
    assert.deepEqual(await following, range(1, 5));
    core.retry(runId);
    const orphan = seqsOf(client, { run: runId, kind: "steps", follow: true });
    await until(() => core.waiting === 1, { what: "the follower to wait" });
    // It is over when it sees the run's end, or NOT_FOUND when it sees the deletion first.
    const ended = orphan.catch((error) => assert.ok(hasCode("not_found", /was deleted/)(error)));
    core.cancel(runId);
    await core.delete(runId, true);
    // Another run has the id by the time that the follower finds out.
    executing(core);
    core.addSteps(runId, 1, 3);
    await ended;
    assert.deepEqual(await seqsOf(client, { run: runId, kind: "steps" }), range(1, 3));
  },
);

testEachApiWay(
  "StreamEvents: of one run or all, from since_seq; following one run ends with it",
  async ({ client, core }) => {
    const first = executing(core, 1);
    const second = executing(core, 2);
    const eventsOf = async (request: Record<string, unknown>) => {
      const events = [];
      for await (const event of client.stream(method.streamEvents, request)) events.push(event);
      return events;
    };
    const all = await eventsOf({});
    const seqs = all.map((event) => event.seq);
    assert.deepEqual(seqs, [...seqs].sort((a, b) => Number(a - b)));
    assert.deepEqual(new Set(all.map((event) => event.runId)), new Set([first, second]));
    const ofSecond = await eventsOf({ run: "run-2" });
    assert.ok(ofSecond.every((event) => event.runId === second && event.runName === "run-2"));
    const later = await eventsOf({ run: "run-2", sinceSeq: ofSecond[0]!.seq });
    assert.deepEqual(later, ofSecond.slice(1));

    const following = eventsOf({ run: second, sinceSeq: ofSecond.at(-1)!.seq, follow: true });
    core.registry.appendEvent(second, "checkpoint_saved", { path: "c.pt" });
    core.registry.appendEvent(first, "checkpoint_saved", { path: "d.pt" });
    core.registry.apply(second, { type: "exited_ok" });
    const followed = await following;
    assert.deepEqual(JSON.parse(followed[0]!.dataJson), { path: "c.pt" });
    assert.equal(followed.at(-1)!.kind, "state");
    assert.ok(followed.every((event) => event.runId === second));
  },
);

async function logOf(client: AnyClient, request: Record<string, unknown>) {
  let text = "";
  let nextOffset = 0n;
  let suppressed = 0n;
  for await (const chunk of client.stream(method.streamLogs, request)) {
    text += decoder.decode(chunk.text);
    nextOffset = chunk.nextOffset;
    suppressed += chunk.suppressedLines;
  }
  return { text, nextOffset, suppressed };
}

testEachApiWay(
  "StreamLogs: whole, from an offset, the last lines, stderr apart, no file yet",
  async ({ client, core }) => {
    const runId = executing(core);
    assert.equal((await logOf(client, { run: runId })).text, "");
    const text = range(1, 5000).map((n) => `line ${n}`).join("\n") + "\n";
    Deno.writeTextFileSync(core.logFile(core.registry.require(runId), "stdout"), text);
    Deno.writeTextFileSync(core.logFile(core.registry.require(runId), "stderr"), "oh no\nlast");
    const all = await logOf(client, { run: runId });
    assert.equal(all.text, text);
    assert.equal(all.nextOffset, BigInt(text.length));
    assert.equal(
      (await logOf(client, { run: runId, sinceOffset: BigInt(text.length - 5) })).text,
      "5000\n",
    );
    assert.equal((await logOf(client, { run: runId, sinceOffset: 1n << 40n })).text, "");
    assert.equal(
      (await logOf(client, { run: runId, tailLines: 2 })).text,
      "line 4999\nline 5000\n",
    );
    assert.equal(
      (await logOf(client, { run: runId, stream: "stderr", tailLines: 1 })).text,
      "last",
    );
    await assert.rejects(
      logOf(client, { run: runId, stream: "stdin" }),
      hasCode("invalid_argument", /stdin/),
    );
  },
);

testEachApiWay("StreamLogs: the output of each attempt of a run", async ({ client, core }) => {
  const runId = executing(core);
  const stdout = () => core.logFile(core.registry.require(runId), "stdout");
  const wrong = (attempt: number, had: RegExp) =>
    assert.rejects(logOf(client, { run: runId, attempt }), hasCode("invalid_argument", had));
  Deno.writeTextFileSync(stdout(), "one\n");
  assert.equal((await logOf(client, { run: runId, attempt: 1 })).text, "one\n");
  await wrong(2, /attempt is 2: run \w+ has one attempt, 1/);
  core.cancel(runId);
  core.retry(runId);
  // The second attempt waits and has written nothing yet.
  assert.equal((await logOf(client, { run: runId })).text, "one\n");
  assert.equal((await logOf(client, { run: runId, attempt: 2 })).text, "");
  Deno.writeTextFileSync(stdout().replace(/\.stdout\.log$/, ".2.stdout.log"), "two\n");
  assert.equal((await logOf(client, { run: runId, attempt: 2 })).text, "two\n");
  // A follower of an earlier attempt ends with its file.
  assert.equal((await logOf(client, { run: runId, attempt: 1, follow: true })).text, "one\n");
  await wrong(3, /attempt is 3: run \w+ has attempts 1 to 2/);
});

testEachApiWay(
  "StreamLogs: following sees a file that comes later and what is appended, and ends with the attempt",
  async ({ client, core }) => {
    const runId = executing(core);
    const path = core.logFile(core.registry.require(runId), "stdout");
    let seen = "";
    const following = (async () => {
      for await (const chunk of client.stream(method.streamLogs, { run: runId, follow: true })) {
        seen += decoder.decode(chunk.text);
      }
    })();
    Deno.writeTextFileSync(path, "one\n");
    await until(() => seen === "one\n", { what: "the first line" });
    Deno.writeTextFileSync(path, "two, unfinished", { append: true });
    await until(() => seen.endsWith("unfinished"), { what: "the second line" });
    // The next attempt has a file of its own, which is not mixed in.
    Deno.writeTextFileSync(path, "\nlast words\n", { append: true });
    core.registry.apply(runId, { type: "failed", reason: "exit_code_1" });
    core.registry.apply(runId, { type: "retry", reason: "restart" });
    Deno.writeTextFileSync(
      core.filesOf(core.registry.require(runId)).stdout(2),
      "second attempt\n",
    );
    await following;
    assert.equal(seen, "one\ntwo, unfinished\nlast words\n");
  },
);

testEachApiWay(
  "StreamLogs: the blank line that the proxy begins root's journals with is left out; emptied, it is followed from its beginning",
  async ({ client, core }) => {
    const runId = executing(core);
    const path = core.logFile(core.registry.require(runId), "stdout");
    Deno.writeFileSync(path, JOURNAL_HEADER);
    Deno.writeTextFileSync(path, "one\ntwo\n", { append: true });
    assert.equal((await logOf(client, { run: runId })).text, "one\ntwo\n");
    assert.equal((await logOf(client, { run: runId, tailLines: 9 })).text, "one\ntwo\n");
    let seen = "";
    const following = (async () => {
      for await (const chunk of client.stream(method.streamLogs, { run: runId, follow: true })) {
        seen += decoder.decode(chunk.text);
      }
    })();
    await until(() => seen === "one\ntwo\n", { what: "what is there" });
    Deno.writeTextFileSync(path, "new\n");
    await until(() => seen === "one\ntwo\nnew\n", {
      what: "what is there since it was emptied",
      state: () => seen,
    });
    core.registry.apply(runId, { type: "failed", reason: "exit_code_1" });
    await following;
  },
);

Deno.test("logs: a viewer gets so many lines a second, and the number of those left out", () => {
  const rate = new LineRate(3);
  const bytes = new TextEncoder().encode("a\nb\nc\nd\ne\nf");
  assert.deepEqual(rate.admit(bytes, 10.2), { show: 6, suppressedLines: 2 });
  assert.deepEqual(rate.admit(bytes, 10.9), { show: 0, suppressedLines: 5 });
  assert.deepEqual(rate.admit(bytes.subarray(0, 5), 11), { show: 5, suppressedLines: 0 });
});

Deno.test("logs: where the last lines begin", () => {
  const path = Deno.makeTempFileSync();
  try {
    const offsetOf = (text: string, lines: number) => {
      Deno.writeTextFileSync(path, text);
      using file = openRegular(path, path.slice(0, path.lastIndexOf("/")))!;
      return tailOffset(file, text.length, lines);
    };
    const cases: [string, number, number][] = [
      ["", 3, 0],
      ["a\nb\nc\n", 1, 4],
      ["a\nb\nc", 1, 4],
      ["a\nb\nc", 2, 2],
      ["a\nb\n", 9, 0],
      ["\n\n\n", 1, 2],
      ["x".repeat(200_000) + "\nend\n", 1, 200_001],
      ["x".repeat(200_000) + "\nend\n", 2, 0],
    ];
    for (const [text, lines, expected] of cases) {
      assert.equal(offsetOf(text, lines), expected, `${JSON.stringify(text.slice(-20))}, ${lines}`);
    }
  } finally {
    Deno.removeSync(path);
  }
});

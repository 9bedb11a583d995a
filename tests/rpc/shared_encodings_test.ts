import assert from "node:assert/strict";
import { RUN_STEPS } from "../../src/rpc/records/record_forms.ts";
import { SharedEncodings } from "../../src/rpc/records/shared_encodings.ts";
import { executing, withServer } from "./fixture.ts";
import { A_STEP } from "../harness/played_engine.ts";

const steps = (n: number, observationJson = "[0.5]") =>
  Array.from({ length: n }, () => ({ ...A_STEP, observationJson }));

Deno.test("encodings: readers that have come as far get the same bytes; a single reader's are not kept", () =>
  withServer(({ core }) => {
    const runId = executing(core);
    const encodings = new SharedEncodings(core);
    core.telemetry.append(runId, 1, steps(700), []);
    const one = encodings.open(RUN_STEPS, runId);
    const first = one.read(0, Infinity)!;
    assert.deepEqual([first.first, first.last], [1, 512]);
    assert.equal(encodings.bytes, 0);
    const other = encodings.open(RUN_STEPS, runId);
    const shared = other.read(0, Infinity)!;
    assert.equal(one.read(0, Infinity), shared);
    assert.deepEqual(shared.framed, first.framed);
    const head = one.read(512, Infinity)!;
    core.telemetry.append(runId, 1, steps(100), []);
    assert.equal(
      other.read(512, Infinity),
      head,
      "what is known is good, though there is more by now",
    );
    assert.deepEqual([head.first, head.last, other.read(700, Infinity)!.last], [513, 700, 800]);
    core.telemetry.append(runId, 1, steps(1000), []);
    const apart = [
      one.read(600, Infinity)!.last,
      other.read(700, Infinity)!.last,
      one.read(800, Infinity)!.last,
    ];
    // 700 to 800 is known from before.
    assert.deepEqual(apart, [1024, 800, 1024], "readers who stand apart meet where a chunk ends");
    assert.equal(other.read(1800, Infinity), undefined);
    assert.equal(other.read(0, 10)!.last, 10, "who wants fewer gets a chunk of his own");
    other.close();
    assert.notEqual(one.read(100, Infinity), one.read(100, Infinity));
    return Promise.resolve();
  }));

Deno.test("encodings: what is kept is bounded, the newest of it", () =>
  withServer(({ core }) => {
    const runId = executing(core);
    const encodings = new SharedEncodings(core);
    core.telemetry.append(runId, 1, steps(6000, JSON.stringify("x".repeat(5000))), []);
    const readers = [encodings.open(RUN_STEPS, runId), encodings.open(RUN_STEPS, runId)];
    let last = 0;
    for (let since = 0; since < 6000; since = readers[0]!.read(since, Infinity)!.last) last = since;
    assert(encodings.bytes > 1 << 20 && encodings.bytes <= 8 << 20, String(encodings.bytes));
    assert.equal(readers[0]!.read(last, Infinity), readers[1]!.read(last, Infinity));
    return Promise.resolve();
  }));

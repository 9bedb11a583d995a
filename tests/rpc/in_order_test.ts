import assert from "node:assert/strict";
import { InOrder } from "../../src/rpc/ingest/in_order.ts";

Deno.test("in order: pieces are finished in the order in which they were added, and their bytes count until then", async () => {
  const done: number[] = [];
  const order = new InOrder(() => assert.fail("nothing fails"));
  const gate = Promise.withResolvers<void>();
  order.add(10, async () => {
    await gate.promise;
    done.push(1);
  });
  order.add(5, () => Promise.resolve(void done.push(2)));
  assert.deepEqual([order.bytes, done], [15, []]);
  gate.resolve();
  await order.finished();
  assert.deepEqual([order.bytes, done], [0, [1, 2]]);
});

Deno.test("in order: after a failure no further piece is finished; each caller gets the error, and the callback gets it once", async () => {
  const done: number[] = [];
  const failures: Error[] = [];
  const order = new InOrder((failure) => failures.push(failure));
  const why = new Error("a gap");
  order.add(1, () => Promise.resolve(void done.push(1)));
  order.add(1, () => Promise.reject(why));
  order.add(1, () => Promise.resolve(void done.push(3)));
  await assert.rejects(order.finished(), why);
  assert.throws(() => order.check(), why);
  order.add(1, () => Promise.resolve(void done.push(4)));
  await assert.rejects(order.finished(), why);
  assert.deepEqual([done, failures], [[1], [why]]);
});

import assert from "node:assert/strict";
import { mayCollect } from "../../src/daemon/idle_heap.ts";

Deno.test("heap: collected when the daemon has worked and rests, not while it works, and not a large one", () => {
  const rests = { usedMs: 10, workMs: 1000, heapBytes: 20 << 20 };
  assert.ok(mayCollect(rests));
  assert.ok(!mayCollect({ ...rests, usedMs: 50 }));
  assert.ok(!mayCollect({ ...rests, workMs: 999 }));
  assert.ok(!mayCollect({ ...rests, heapBytes: 49 << 20 }));
});

import assert from "node:assert/strict";
import { mustBeReplaced } from "../../src/daemon/start/memory_limit.ts";

Deno.test("--max-memory: beyond it the daemon goes at a quiet moment, or after ten minutes, and never young", () => {
  const over = { bytes: 300, limitBytes: 200, uptimeMs: 61_000, overMs: 0, busy: false };
  assert.ok(mustBeReplaced(over));
  assert.ok(!mustBeReplaced({ ...over, bytes: 200 }));
  assert.ok(!mustBeReplaced({ ...over, uptimeMs: 59_000 }));
  assert.ok(!mustBeReplaced({ ...over, busy: true, overMs: 599_000 }));
  assert.ok(mustBeReplaced({ ...over, busy: true, overMs: 600_000 }));
});

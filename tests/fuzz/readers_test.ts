import assert from "node:assert/strict";
import { LONG_TESTS } from "../harness/long.ts";
import { hunt } from "./hunt.ts";
import { TARGETS } from "./readers.ts";

/** About a minute for all targets; `deno task fuzz` runs longer, with other seeds. */
const SECONDS = LONG_TESTS ? 6 : 3;

for (const target of TARGETS) {
  Deno.test(`${target.name}: no input ends in an error or takes time that grows faster than its length`, async () => {
    const { inputs, findings } = await hunt(target, 1, SECONDS);
    assert.ok(inputs > 0);
    assert.deepEqual(findings, []);
  });
}

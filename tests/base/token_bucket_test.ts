import assert from "node:assert/strict";
import { TokenBucket } from "../../src/base/time/token_bucket.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture } from "../harness/engine.ts";
import { MosaicError } from "../../src/base/errors.ts";

Deno.test("token bucket: a burst, then the rate; what is refused costs nothing", () => {
  const bucket = new TokenBucket(10, 3, 1000);
  assert.deepEqual([1, 2, 3].map(() => bucket.take(1000)), [undefined, undefined, undefined]);
  assert.equal(bucket.take(1000), 100);
  assert.equal(bucket.take(1040), 60);
  assert.equal(bucket.take(1040), 60);
  assert.equal(bucket.take(1100), undefined);
  assert.equal(bucket.take(1100), 100);
  // However long nobody asks, there is one burst.
  assert.deepEqual([1, 2, 3].map(() => bucket.take(99_000)), [undefined, undefined, undefined]);
  assert.equal(bucket.take(99_000), 100);
});

Deno.test("token bucket: less than one a second", () => {
  const bucket = new TokenBucket(0.5, 1, 0);
  assert.equal(bucket.take(0), undefined);
  assert.equal(bucket.take(500), 1500);
  assert.equal(bucket.take(2000), undefined);
});

Deno.test("submit: more than the rate is refused with the time to wait, broken configs counted too, and nothing is written", async () => {
  await using f = EngineFixture.start({ bounds: { submitRate: 0.001, submitBurst: 2 } });
  f.engine.submit(configOf({ command: ["/bin/true"] }));
  assert.throws(() => f.engine.submit("{}"));
  assert.throws(
    () => f.engine.submit(configOf({ command: ["/bin/false"] })),
    (error: MosaicError) => {
      assert.equal(error.code, "resource_exhausted");
      assert.match(error.message, /the limit is 0.001 \(--submit-rate\)/);
      assert.match(error.message, /after 2 at once, --submit-burst/);
      assert.match(
        error.hint!,
        /^Submit again in \d+\.\d+ s, or start the daemon with a higher --submit-rate\.$/,
      );
      assert.ok(error.retryAfterMs! > 0);
      return true;
    },
  );
  assert.equal(f.registry.count({}), 1);
});

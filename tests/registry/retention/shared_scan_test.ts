import assert from "node:assert/strict";
import { SharedScan } from "../../../src/registry/retention/shared_scan.ts";

/** A look that takes as long as the test says, and finds how many there have been. */
function scene(took: number) {
  const clock = { now: 0 };
  const ends: (() => void)[] = [];
  let looks = 0;
  const shared = new SharedScan(() => {
    const found = ++looks;
    return new Promise<number>((resolve) => {
      ends.push(() => {
        clock.now += took;
        resolve(found);
      });
    });
  }, () => clock.now);
  return { clock, shared, end: () => ends.shift()!(), looks: () => looks };
}

Deno.test("a shared scan: who asks while one is under way gets that one", async () => {
  const { shared, end, looks } = scene(1000);
  const asked = [shared.get(), shared.get(), shared.get()];
  end();
  assert.deepEqual(await Promise.all(asked), [1, 1, 1]);
  assert.equal(looks(), 1);
});

Deno.test("a shared scan: one that took a second is good for ten, a cheap one for nobody else", async () => {
  const costly = scene(1000);
  const first = costly.shared.get();
  costly.end();
  assert.equal(await first, 1);
  costly.clock.now += 9999;
  assert.equal(await costly.shared.get(), 1);
  costly.clock.now += 1;
  const second = costly.shared.get();
  costly.end();
  assert.equal(await second, 2);

  const cheap = scene(49);
  for (const expected of [1, 2]) {
    const asked = cheap.shared.get();
    cheap.end();
    assert.equal(await asked, expected);
  }
});

Deno.test("a shared scan: however long one took, it is good for a minute at most", async () => {
  const { clock, shared, end } = scene(20_000);
  const first = shared.get();
  end();
  assert.equal(await first, 1);
  clock.now += 59_999;
  assert.equal(await shared.get(), 1);
  clock.now += 1;
  const second = shared.get();
  end();
  assert.equal(await second, 2);
});

Deno.test("a shared scan: what is forgotten is scanned anew, and a scan from before is not kept", async () => {
  const { shared, end } = scene(1000);
  const before = shared.get();
  shared.forget();
  const after = shared.get();
  end();
  assert.equal(await before, 1);
  end();
  assert.equal(await after, 2);
  assert.equal(await shared.get(), 2);
  shared.forget();
  const anew = shared.get();
  end();
  assert.equal(await anew, 3);
});

Deno.test("a shared scan: a failure reaches all who wait, and the next scans again", async () => {
  let fails = true;
  const shared = new SharedScan(() =>
    fails ? Promise.reject(new Error("no")) : Promise.resolve("yes")
  );
  const asked = [shared.get(), shared.get()];
  for (const one of asked) await assert.rejects(one, /no/);
  fails = false;
  assert.equal(await shared.get(), "yes");
});

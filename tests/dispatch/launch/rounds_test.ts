import assert from "node:assert/strict";
import { Rounds } from "../../../src/dispatch/launch/placed/rounds.ts";
import { until } from "../../harness/wait.ts";

Deno.test("rounds: none before the start, never two at a time, one more for what happens meanwhile, none after the end", async () => {
  let [begun, running, errors] = [0, 0, 0];
  let finish = () => {};
  const rounds = new Rounds({
    work: async () => {
      begun++;
      running++;
      assert.equal(running, 1);
      await new Promise<void>((resolve) => finish = resolve);
      running--;
      if (begun === 1) throw new Error("a round that fails is followed by the next");
      return false;
    },
    onError: () => errors++,
    pauseMs: { least: 1, most: 60_000 },
    clock: () => performance.now(),
  });
  rounds.soon();
  assert.equal(begun, 0);
  rounds.start();
  for (const n of [1, 2]) {
    await until(() => begun === n, { what: `round ${n}` });
    rounds.soon();
    finish();
  }
  await until(() => begun === 3, { what: "the round for what happened during the second" });
  assert.equal(errors, 1);
  const closed = rounds.close();
  finish();
  await closed;
  rounds.soon();
  assert.deepEqual([begun, running, rounds.closed], [3, 0, true]);
});

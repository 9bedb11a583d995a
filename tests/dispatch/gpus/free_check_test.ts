import assert from "node:assert/strict";
import { FreeCheck } from "../../../src/dispatch/gpus/free_check.ts";
import type { Device } from "../../../src/dispatch/gpus/devices.ts";
import { USUAL_FREE } from "../../../src/os/gpus/free_memory.ts";
import type { Card } from "../../../src/os/gpus/card.ts";

const card = (index: number, usedMb: number): Card => ({
  ...{ uuid: `GPU-${index}`, vendor: "nvidia", index, name: "", memoryMb: 80_000, usedMb },
  ...{ percent: null, watts: null, celsius: null, instances: null },
} as Card);
const deviceOf = (slot: number): Device => ({
  ...{
    uuid: `GPU-${slot}`,
    vendor: "nvidia",
    card: slot,
    instance: null,
    name: "",
    memoryMb: 80_000,
  },
});

Deno.test("free: a card whose run has just ended is looked at anew; until then nothing is said to lack", async () => {
  const used = new Map([[0, 0], [1, 40_000]]);
  const asked: number[] = [];
  const check = new FreeCheck(USUAL_FREE, {
    read: (freshMs) => {
      asked.push(freshMs);
      const cards = [...used].map(([index, usedMb]) => card(index, usedMb));
      return Promise.resolve({
        cards,
        complete: true,
        problem: "",
        tool: true,
        links: [],
        at: performance.now(),
      });
    },
    cardOf: (slot, { cards }) => cards.find(({ index }) => index === slot),
    deviceOf,
    sharersOf: () => Promise.resolve(new Map()),
    isTold: false,
    lockedByOthers: () => Promise.resolve(new Map()),
    isLockedByOther: () => false,
  }, { processes: () => Promise.resolve([]) });
  const look = async (free: number[]) => {
    const first = check.of(free, "a run", () => answered.resolve());
    const answered = Promise.withResolvers<void>();
    await answered.promise;
    return [first, check.of(free, "a run", () => {})] as const;
  };

  const [first, second] = await look([1]);
  assert.deepEqual([first.usable, first.asking, first.likely], [[], true, undefined]);
  assert.deepEqual([second.usable, second.asking], [[], false]);
  assert.match(second.used[0]!, /^gpu 1: 39.1 GiB/);

  // Card 1 is in use, and of card 0 nothing is known yet.
  const [freed, then] = await look([0, 1]);
  assert.deepEqual([freed.usable, freed.asking, freed.likely], [[], true, undefined]);
  assert.equal(freed.used.length, 1);
  assert.deepEqual([then.usable, then.asking], [[0], false]);
  assert.deepEqual(asked, [0, 0], "figures of before it was free count for nothing");
});

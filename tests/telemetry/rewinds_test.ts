import assert from "node:assert/strict";
import { type Part, partsOf } from "../../src/telemetry/series/rewinds.ts";
import { EMPTY_EPISODE } from "../../src/gen/records/record_types.ts";
import { batch, withStore } from "./harness.ts";

const EVENT = { kind: "metrics", tsNs: "0", dataJson: "" };
const told = (step: number, loss: number) => ({
  ...EVENT,
  dataJson: JSON.stringify({ step, loss }),
});
const brief = (p: Part) =>
  `${p.attempt}:${p.first}-${p.last}${p.overwritten ? " overwritten" : ""}`;

Deno.test("rewinds: what attempts leave of those before them, by number and by step", () => {
  const numbers = (starts: Parameters<typeof partsOf>[0], points: number) =>
    partsOf(starts, points).map(brief);
  assert.deepEqual(numbers([], 9), ["1:1-9"]);
  // The second went back to 6, the third to 3: nothing is left of the second.
  assert.deepEqual(
    numbers([{ attempt: 2, first: 11, position: 6 }, { attempt: 3, first: 15, position: 3 }], 20),
    [
      ...["1:1-2", "1:3-10 overwritten", "2:11-14 overwritten", "3:15-20"],
    ],
  );
  assert.deepEqual(numbers([{ attempt: 2, first: 11, position: 1 }], 12), [
    "1:1-10 overwritten",
    "2:11-12",
  ]);
  const steps = [0, 100, 200, 300, 200, 300, 400];
  assert.deepEqual(
    partsOf([{ attempt: 2, first: 5, position: 200 }], 7, (x) => steps[x - 1]!).map(brief),
    ["1:1-2", "1:3-4 overwritten", "2:5-7"],
  );
});

Deno.test("rewinds: a retry from a checkpoint goes on where that was written; everything stays readable", () =>
  withStore((bench) => {
    const second = (s: number) => `${s}000000000`;
    const part = (from: number, n: number, at: number, more = {}) =>
      batch(from, from + n, {
        ...more,
        steps: {
          n,
          reward: Array(n).fill(1),
          tsNs: Array.from({ length: n }, (_, i) => second(at + i)),
        },
        episodes: Array.from(
          { length: n / 5 },
          (_, i) => ({ ...EMPTY_EPISODE, tsNs: second(at + 5 * i + 4) }),
        ),
      });
    bench.store.ingest("R", 1, part(0, 100, 1, { events: [10, 40, 80].map((s) => told(s, s)) }));
    // The checkpoint was written after 60 steps and 12 episodes.
    bench.store.beginAttempt("R", 2, 60_500);
    bench.reopen();
    bench.store.ingest(
      "R",
      2,
      part(0, 20, 200, {
        events: [told(70, 700), { ...EVENT, dataJson: '{"untold":1}' }],
      }),
    );
    const rows = (name: string) =>
      bench.store.series("R", name, 0, 0, 1000).map((r) => ({
        ...r,
        at: `${r.attempt} ${r.step} ${r.overwritten}`,
      }));
    const reward = rows("reward").map((r) => r.at);
    assert.equal(reward.length, 120);
    assert.deepEqual([reward[59], reward[60], reward[99], reward[100], reward[119]], [
      ...["1 60 false", "1 61 true", "1 100 true", "2 61 false", "2 80 false"],
    ]);
    assert.deepEqual(rows("episode_length").slice(11, 21).map((r) => r.at), [
      ...[
        "1 12 false",
        "1 13 true",
        "1 14 true",
        "1 15 true",
        "1 16 true",
        "1 17 true",
        "1 18 true",
        "1 19 true",
      ],
      ...["1 20 true", "2 13 false"],
    ]);
    assert.deepEqual(rows("loss").map((r) => `${r.mean} ${r.at}`), [
      ...["10 1 10 false", "40 1 40 false", "80 1 80 true", "700 2 70 false"],
    ]);
    assert.deepEqual(bench.store.overwritten("R", "reward"), [{ first: 61, last: 100 }]);
    // A point that names no step is at the step of the attempt, not behind all steps there ever
    // were.
    assert.equal(bench.store.series("R", "untold", 0, 0, 10)[0]!.step, 80);
    // A reset begins anew.
    bench.store.beginAttempt("R", 3, null);
    bench.store.ingest("R", 3, part(0, 5, 300));
    assert.deepEqual(bench.store.overwritten("R", "reward"), [{ first: 1, last: 100 }, {
      first: 101,
      last: 120,
    }]);
    assert.equal(rows("reward").at(-1)!.at, "3 5 false");
    assert.equal(bench.store.series("R", "reward", 0, 0, 10).reduce((n, r) => n + r.count, 0), 125);
  }));

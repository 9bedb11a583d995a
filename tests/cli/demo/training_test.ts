import { strict as assert } from "node:assert";
import { DEFAULTS, demoWorkerOptions } from "../../../src/cli/demo/worker_options.ts";
import { parseCheckpoint, Training, type TrainingRecord } from "../../../src/cli/demo/training.ts";

const options = (o: Record<string, unknown>) => demoWorkerOptions(o);

function mean(values: number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

function rewards(training: Training): number[] {
  return [...training.records()].flatMap((r) => (r.type === "episode" ? [r.totalReward] : []));
}

Deno.test("learner: with its defaults it clearly learns, whatever the seed", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const all = rewards(new Training(options({ seed })));
    assert.equal(all.length, DEFAULTS.episodes);
    const [first, last] = [mean(all.slice(0, 20)), mean(all.slice(-100))];
    assert.ok(first < 60, `seed ${seed} began at ${first}`);
    assert.ok(last > 350, `seed ${seed} ended at ${last}`);
  }
});

Deno.test("learner: a larger population learns too, later", () => {
  const half = (population: number) =>
    mean(rewards(new Training(options({ population, episodes: 160 }))));
  assert.ok(
    mean(rewards(new Training(options({ population: 40, episodes: 400 }))).slice(-100)) > 300,
  );
  assert.ok(half(40) < half(20));
});

Deno.test("learner: a generation is fitted to its best episodes", () => {
  const training = new Training(options({ population: 10, elite: 0.3, episodes: 20 }));
  const episodes = [...training.records()].filter((r) => r.type === "episode");
  assert.deepEqual(episodes.flatMap((e) => e.learned === undefined ? [] : [e.episode]), [9, 19]);
  const best = episodes.slice(0, 10).map((e) => e.totalReward).toSorted((a, b) => b - a);
  const { generation, bestReward, eliteReward, populationReward, weightStd } = episodes[9]!
    .learned!;
  assert.deepEqual(
    [generation, bestReward, eliteReward, populationReward],
    [0, best[0], mean(best.slice(0, 3)), mean(best)],
  );
  assert.ok(weightStd > 0 && weightStd < 1.2);
});

Deno.test("learner: one seed is one run, another seed another", () => {
  const run = (seed: number) => rewards(new Training(options({ episodes: 30, seed })));
  assert.deepEqual(run(5), run(5));
  assert.notDeepEqual(run(5), run(6));
});

Deno.test("learner: resumed from a checkpoint in a generation it goes on as if it had never stopped", () => {
  const whole = [...new Training(options({ episodes: 60 })).records()];
  const first = new Training(options({ episodes: 60 }));
  const records: TrainingRecord[] = [];
  for (const record of first.records()) {
    records.push(record);
    if (record.type === "episode" && record.episode === 24) break;
  }
  const saved = parseCheckpoint(JSON.stringify(first.checkpoint()));
  records.push(...new Training(options({ episodes: 60 }), saved).records());
  assert.deepEqual(records, whole);
});

Deno.test("learner: a checkpoint of another program or version is refused", () => {
  assert.throws(() => parseCheckpoint(`{"format":"other"}`), /not a checkpoint/);
  assert.throws(
    () => parseCheckpoint(`{"format":"mosaic-demo-cartpole","version":1}`),
    /version is 1/,
  );
});

Deno.test("learner: a checkpoint may continue with another population", () => {
  const first = new Training(options({ episodes: 15 }));
  for (const _ of first.records());
  const records = [
    ...new Training(options({ episodes: 25, population: 10 }), first.checkpoint()).records(),
  ];
  // The unfinished generation of 15 is already large enough.
  assert.deepEqual(
    records.flatMap((r) => (r.type === "episode" && r.learned !== undefined ? [r.episode] : [])),
    [15],
  );
});

Deno.test("training: a bound on steps ends it in mid-episode, truncated", () => {
  const records = [...new Training(options({ maxSteps: 100 })).records()];
  assert.equal(records.filter((r) => r.type === "step").length, 100);
  const last = records.at(-1)!;
  assert.equal(last.type, "episode");
  assert.equal(records.filter((r) => r.type === "step").at(-1)!.truncated, true);
});

Deno.test("options: flags win over the file, the file over the defaults", () => {
  const made = demoWorkerOptions({ seed: "7", elite: "1e-1" }, {
    seed: 9,
    population: 4,
    run_id: "x",
  });
  assert.deepEqual(made, { ...DEFAULTS, seed: 7, elite: 0.1, population: 4 });
});

Deno.test("options: a value out of bounds is refused with its name and bounds", () => {
  for (
    const [flags, message] of [
      [{ episodes: "0" }, /--episodes is "0".*an integer/],
      [{ episodes: "2.5" }, /--episodes/],
      [{ elite: "best" }, /--elite is "best"/],
      [{ elite: "1.1" }, /--elite/],
      [{ stepDelayMs: "-1" }, /--step-delay-ms/],
      [{ seed: "" }, /--seed is ""/],
    ] as [Record<string, unknown>, RegExp][]
  ) assert.throws(() => demoWorkerOptions(flags), message);
});

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
  for (const seed of [1, 2, 3]) {
    const all = rewards(new Training(options({ seed })));
    assert.equal(all.length, DEFAULTS.episodes);
    const [first, last] = [mean(all.slice(0, 20)), mean(all.slice(-100))];
    assert.ok(first < 60, `seed ${seed} began at ${first}`);
    assert.ok(last > 200, `seed ${seed} ended at ${last}`);
  }
});

Deno.test("learner: a linear policy learns too", () => {
  assert.ok(mean(rewards(new Training(options({ hidden: 0, learningRate: 0.03 }))).slice(-100)) > 150);
});

Deno.test("learner: one seed is one run, another seed another", () => {
  const run = (seed: number) => rewards(new Training(options({ episodes: 30, seed })));
  assert.deepEqual(run(5), run(5));
  assert.notDeepEqual(run(5), run(6));
});

Deno.test("learner: resumed from a checkpoint it goes on as if it had never stopped", () => {
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

Deno.test("learner: a checkpoint of another network is refused", () => {
  const saved = new Training(options({ hidden: 8 })).checkpoint();
  assert.throws(() => new Training(options({ hidden: 16 }), saved), /41 .*needs 97|weights/);
  assert.throws(() => parseCheckpoint(`{"format":"other"}`), /not a checkpoint/);
  assert.throws(() => parseCheckpoint(`{"format":"mosaic-demo-cartpole","version":2}`), /version is 2/);
});

Deno.test("training: a bound on steps ends it in mid-episode, truncated", () => {
  const records = [...new Training(options({ maxSteps: 100 })).records()];
  assert.equal(records.filter((r) => r.type === "step").length, 100);
  const last = records.at(-1)!;
  assert.equal(last.type, "episode");
  assert.equal(records.filter((r) => r.type === "step").at(-1)!.truncated, true);
});

Deno.test("options: flags win over the file, the file over the defaults", () => {
  const made = demoWorkerOptions({ seed: "7", learningRate: "1e-3" }, { seed: 9, hidden: 4, run_id: "x" });
  assert.deepEqual(made, { ...DEFAULTS, seed: 7, learningRate: 0.001, hidden: 4 });
});

Deno.test("options: a value out of bounds is refused with its name and bounds", () => {
  for (
    const [flags, message] of [
      [{ episodes: "0" }, /--episodes is "0".*an integer/],
      [{ episodes: "2.5" }, /--episodes/],
      [{ learningRate: "fast" }, /--learning-rate is "fast"/],
      [{ gamma: "1.1" }, /--gamma/],
      [{ seed: "" }, /--seed is ""/],
    ] as [Record<string, unknown>, RegExp][]
  ) assert.throws(() => demoWorkerOptions(flags), message);
});

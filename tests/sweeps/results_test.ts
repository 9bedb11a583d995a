/** What people take from a sweep: the statement and the tables. */
import { strict as assert } from "node:assert";
import { parquetMetadataAsync, parquetReadObjects } from "npm:hyparquet@1.31.5";
import { statement } from "../../src/sweeps/results/statement.ts";
import type { PointJson, SweepJson, TrialJson } from "../../src/sweeps/results/sweep_json.ts";
import { tableBytes } from "../../src/sweeps/results/sweep_table.ts";

const sweep: SweepJson = {
  sweep_id: "01K9ABCDEFGHJKMNPQRSTVWXYZ",
  name: "ppo",
  state: "finished",
  created_at: "2026-11-27T10:00:00.000Z",
  total: 9,
  made: 9,
  states: { terminated: 5, pruned: 2, faulted: 1, refused: 1 },
  parameters: ["lr", "seed"],
  seeds: ["seed"],
  max_parallel: null,
  budget: {},
  metric: { name: "reward", goal: "max" },
  stop: { rule: "asha", unit: "step", min: 1000, max: 27000, reduction: 3, brackets: 1 },
  waiting_for: null,
};
const point = (
  lr: unknown,
  mean: number | null,
  values: number,
  half: number | null,
): PointJson => ({
  parameters: { lr: lr as number },
  ...{ trials: 3, pruned: 3 - values, failed: 0, values, mean },
  low: half === null ? null : mean! - half,
  high: half === null ? null : mean! + half,
});
const [good, bad] = [point(0.1, 200, 4, 5), point(0.001, 20, 1, null)];
const sums = {
  spent: { seconds: 3600, steps: 120_000 },
  saved: { trials: 2, steps: 50_000, seconds: 1500 },
};
const winner = {
  ...good,
  ...{ trial: 3, run_id: "01K9", command: "python train.py", second: bad },
  iqm: { middle: 201, low: 196, high: 204 },
};

Deno.test("statement: the estimate with its interval, the number of trials, and what was discarded", () => {
  assert.equal(
    statement(sweep, { ...sums, winner, points: [bad, good], reported: [] }, [1000, 3000, 9000]),
    "Of 2 points, lr=0.1 has the best reward (last value of a trial, the higher the better): mean 200, 95 % confidence " +
      "interval 195 to 205 over 4 seeds; interquartile mean 201, 95 % bootstrap interval 196 to 204. Next is lr=0.001: 20 in " +
      "one trial, without an interval. Of 9 trials, 5 ran to their end; discarded: 2 stopped early, 1 failed, 1 refused. " +
      "Early stopping (asha, one in 3 goes on) judged trials at 3 rungs from 1,000, of 27,000 steps; it saved about 50,000 " +
      "steps and 25m 00s, at each stopped trial's own pace. In all 120,000 steps and 1h 00m of running time. The best of " +
      "several points is chosen by the values that estimate it, so its estimate is optimistic.",
  );
  const early = {
    ...sweep,
    state: "running",
    made: 6,
    states: { terminated: 1, executing: 5 },
    stop: null,
  };
  assert.match(
    statement(early, { ...sums, winner: null, points: [], reported: ["loss"] }, []),
    /^Preliminary: .* No trial has a value of reward; trials report loss\. Of 6 of 9 trials, 1 ran to their end; discarded: none; 5 live\./,
  );
});

Deno.test("tables: points best first and trials by number, as CSV and as typed Parquet, whatever parameters are called", async () => {
  const trial = (n: number, parameters: TrialJson["parameters"]): TrialJson => ({
    ...{
      trial: n,
      run_id: `r${n}`,
      state: "terminated",
      parameters,
      value: n / 2,
      steps: 10,
      seconds: 1.5,
      judged: null,
    },
    ...{ started_at: "2026-11-27T10:00:00.000Z", finished_at: null, reason: null },
  });
  const detail = {
    ...sums,
    ...{
      best: null,
      winner,
      statement: "",
      next_seeds: null,
      judged_at: null,
      points: [bad, good],
      best_so_far: [],
      reported: [],
      stopped: [],
    },
    trials: [
      trial(1, { lr: 0.5, value: "=1+1", deep: [1], on: true }),
      trial(0, { lr: 0.25, value: 7, on: false }),
    ],
  };
  const text = async (of: string, format = "csv") =>
    new TextDecoder().decode(await tableBytes({ ...sweep, detail }, of, format));
  assert.equal((await text("points")).split("\n")[1], "0.1,200,195,205,4,3,-1,0");
  assert.equal(
    await text("trials"),
    "trial,run_id,state,lr,param.value,on,deep,value,steps,seconds,started_at,finished_at,reason\n" +
      "0,r0,terminated,0.25,7,false,,0,10,1.5,2026-11-27T10:00:00.000Z,,\n" +
      "1,r1,terminated,0.5,'=1+1,true,[1],0.5,10,1.5,2026-11-27T10:00:00.000Z,,\n",
  );
  assert.deepEqual(JSON.parse(await text("points", "json"))[1], {
    ...{ lr: 0.001, mean: 20, low: null, high: null, values: 1, trials: 3, pruned: 2, failed: 0 },
  });
  await assert.rejects(text("point"), /table is "point"\. Did you mean points\?/);
  await assert.rejects(text("points", "xlsx"), /format is "xlsx"/);
  const { buffer } = await tableBytes({ ...sweep, detail }, "trials", "parquet");
  assert.deepEqual(
    await parquetReadObjects({ file: buffer }),
    [
      { trial: 0n, run_id: "r0", lr: 0.25, "param.value": "7", on: false, deep: null, value: 0 },
      {
        trial: 1n,
        run_id: "r1",
        lr: 0.5,
        "param.value": "=1+1",
        on: true,
        deep: "[1]",
        value: 0.5,
      },
    ].map(({ trial, run_id, ...rest }) => ({
      ...{ trial, run_id, state: "terminated", ...rest, steps: 10n, seconds: 1.5 },
      ...{ started_at: new Date("2026-11-27T10:00:00.000Z"), finished_at: null, reason: null },
    })),
  );
  assert.equal((await parquetMetadataAsync(buffer)).num_rows, 2n);
});

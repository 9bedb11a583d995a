import { strict as assert } from "node:assert";
import { childPlaceOf, writerPlaceOf } from "../../../src/readers/files/child_places.ts";

Deno.test("runs within a run: a file belongs to the trial, the job or the tracker's run whose directory it is in", () => {
  const tune =
    "/home/me/ray_results/exp/train_cartpole_1a2b3_00004_4_lr=0.0010_2026-01-01_12-00-00";
  const table: [path: string, key: string | undefined, name: string | undefined][] = [
    [`${tune}/result.json`, tune, "train_cartpole-4"],
    [`${tune}/progress.csv`, tune, "train_cartpole-4"],
    [`${tune}/deeper/events.out.tfevents.1.host`, tune, "train_cartpole-4"],
    ["/w/multirun/2026-01-01/12-00-00/3/metrics.csv", "/w/multirun/2026-01-01/12-00-00/3", "3"],
    ["/w/multirun/12/tb/events.out.tfevents.1.host", "/w/multirun/12", "12"],
    [
      "/w/wandb/offline-run-20260101_120000-ab12cd34/run-ab12cd34.wandb",
      "/w/wandb/ab12cd34",
      "ab12cd34",
    ],
    // Resumed, also within the same second.
    ["/w/wandb/run-20260101_120000-ab12cd34-1/run-ab12cd34.wandb", "/w/wandb/ab12cd34", "ab12cd34"],
    ["/w/wandb/run-20260102_120000-ab12cd34/run-ab12cd34.wandb", "/w/wandb/ab12cd34", "ab12cd34"],
    ["/w/runs/CartPole-v1__ppo__1__1700000000/events.out.tfevents.1.host", undefined, undefined],
    ["/w/logs/ppo_lr0.0003_s0_1/progress.csv", undefined, undefined],
    ["/w/train_1a2b3/result.json", undefined, undefined],
    ["/w/multirun/progress.csv", undefined, undefined],
    ["/w/progress.csv", undefined, undefined],
  ];
  const found = table.map(([path]) => {
    const place = childPlaceOf(path);
    return [path, place?.key, place?.name];
  });
  assert.deepEqual(found, table);
});

Deno.test("runs within a run: writers that tell their parameters at the end of a trial, in any order of discovery", () => {
  const file = (directory: string) => `/w/runs/${directory}/events.out.tfevents.1.host.7.0`;
  const place = (path: string, ...earlier: string[]) =>
    writerPlaceOf(file(path), earlier.map(file))?.name;
  const told = "1700000000.25";
  assert.equal(place("a"), undefined);
  assert.equal(place(`a/${told}`, "a"), undefined);
  assert.equal(place("b", "a", `a/${told}`), "b");
  assert.equal(place(`b/${told}`, "a", `a/${told}`), "b");
  // The first is the run's own, also if its parameters are found before its curves.
  assert.equal(place(`a/${told}`), undefined);
  assert.equal(place("a", `a/${told}`, `b/${told}`), undefined);
  // One writer for all trials.
  assert.equal(place("a/1700000001.5", "a", `a/${told}`), "hparams-2");
  // Parts of one writer, and writers beside each other, are no trials.
  assert.equal(place("a/l_x", "a", `a/${told}`), undefined);
  assert.equal(place("b", "a"), undefined);
  assert.equal(place(`b/${told}`, "a", "b"), undefined);
  // What an earlier daemon has read stays where it is.
  assert.equal(place("a", "a", `a/${told}`, `b/${told}`), undefined);
});

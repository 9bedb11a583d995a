import assert from "node:assert/strict";
import { withPrograms } from "../../../src/readers/import/trials.ts";
import { withParts } from "../../../src/readers/import/parts_of_runs.ts";

const events = (directory: string, pid: number, n = 1) =>
  `${directory}/events.out.tfevents.1700000000.host.${pid}.${n}`;
const run = (directory: string, ...files: string[]) => ({ directory, files });

Deno.test("import: parts of one writer are one run, other runs below it are not", () => {
  const shape = (runs: ReturnType<typeof run>[], most = 256) =>
    withParts(runs, most).map(({ directory, files }) => `${directory}:${files.length}`);
  // add_scalars, add_hparams: the same process.
  const parts = [
    run("/r", events("/r", 7)),
    run("/r/1700000000.5", events("/r/1700000000.5", 7, 2)),
    run("/r/l_a", events("/r/l_a", 7, 3)),
    run("/r/l_a/deep", events("/r/l_a/deep", 7, 4)),
  ];
  assert.deepEqual(shape(parts), ["/r:4"]);
  assert.deepEqual(parts[0]!.files.length, 1, "what was found stays as it is");
  assert.deepEqual(shape(parts, 2), ["/r:2", "/r/l_a:2"]);
  // Other processes are other runs; so are two runs of one process beside each other.
  assert.deepEqual(shape([run("/r", events("/r", 7)), run("/r/x", events("/r/x", 8))]), [
    "/r:1",
    "/r/x:1",
  ]);
  assert.deepEqual(shape([run("/r/a", events("/r/a", 7)), run("/r/b", events("/r/b", 7))]), [
    "/r/a:1",
    "/r/b:1",
  ]);
  // tensorboardX names no process.
  const nameless = (directory: string) =>
    run(directory, `${directory}/events.out.tfevents.1700000000.host`);
  assert.deepEqual(shape([nameless("/r"), nameless("/r/train"), nameless("/r/seed_1")]), [
    "/r:2",
    "/r/seed_1:1",
  ]);
  // Keras.
  assert.deepEqual(shape([nameless("/k/train"), nameless("/k/validation")]), ["/k:2"]);
  assert.deepEqual(shape([nameless("/k/train")]), ["/k/train:1"]);
  // Tables stay with their directory.
  assert.deepEqual(shape([run("/r", "/r/metrics.csv"), run("/r/a", events("/r/a", 7))]), [
    "/r:1",
    "/r/a:1",
  ]);
});

Deno.test("import: of a trainer's checkpoints, which repeat each other, the last is the run, unless its event files are there", () => {
  const state = (directory: string) => run(directory, `${directory}/trainer_state.json`);
  const checkpoints = [state("/o/checkpoint-500"), state("/o/checkpoint-1000"), state("/p")];
  const shape = (runs: ReturnType<typeof run>[]) =>
    withParts(runs, 256).map(({ directory, files }) => `${directory} ${files.join()}`);
  assert.deepEqual(shape(checkpoints), [
    "/o /o/checkpoint-1000/trainer_state.json",
    "/p /p/trainer_state.json",
  ]);
  // What was saved at the end has it all.
  assert.deepEqual(shape([state("/o"), ...checkpoints.slice(0, 2)]), ["/o /o/trainer_state.json"]);
  const written = run("/o/runs/Nov27_host", events("/o/runs/Nov27_host", 7));
  assert.deepEqual(shape([...checkpoints, written]), [
    `/o/runs/Nov27_host ${written.files[0]}`,
    "/p /p/trainer_state.json",
  ]);
  // Tables beside the trainer's file are a run all the same.
  const both = run("/o", "/o/metrics.csv", "/o/trainer_state.json");
  assert.deepEqual(shape([both, written]), [
    "/o /o/metrics.csv",
    `/o/runs/Nov27_host ${written.files[0]}`,
  ]);
});

Deno.test("import: of several runs in a program's directory one is the program's, and none is left out", () => {
  const trial = "/e/train_1a2b3_00001_1_lr=1";
  const runs = [
    run("/e", "/e/a.wandb"),
    run("/e", "/e/b.wandb"),
    run(trial, `${trial}/result.json`),
  ];
  const files = withPrograms(runs, "/e", 256).flatMap((one) => one.files);
  assert.deepEqual(files.sort(), ["/e/a.wandb", "/e/b.wandb", `${trial}/result.json`]);
});

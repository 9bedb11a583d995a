import assert from "node:assert/strict";
import { openFormat } from "../../../src/readers/formats.ts";
import { bytesOf, readAll, restored } from "./harness.ts";

const STATE = `{
  "best_metric": 0.4,
  "epoch": 1.0,
  "global_step": 20,
  "log_history": [
    {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.125, "step": 10},
    {"epoch": 1.0, "eval_loss": NaN, "eval_note": "none", "step": 20}
  ],
  "max_steps": 20,
  "num_train_epochs": 1,
  "save_steps": 500,
  "trial_name": null
}
`;

Deno.test("trainer_state.json: each number of its log is a point at its own step, and what was asked for are parameters", () => {
  const { records, problems } = readAll("trainer_state", bytesOf(STATE));
  assert.deepEqual(problems, []);
  const points = records.flatMap((record) =>
    record.kind === "scalar" ? [[record.tag, record.step, record.value]] : []
  );
  assert.deepEqual(points, [
    ["epoch", 10, 0.5],
    ["grad_norm", 10, 1.5],
    ["learning_rate", 10, 5e-5],
    ["loss", 10, 2.125],
    ["epoch", 20, 1],
    ["eval_loss", 20, NaN],
  ]);
  const parameters = records.filter((record) => record.kind === "params");
  assert.deepEqual(parameters.map(({ values }) => values), [
    { max_steps: 20, num_train_epochs: 1, save_steps: 500 },
  ]);
});

Deno.test("trainer_state.json: half of it waits for the rest; what never becomes one is named", () => {
  const whole = bytesOf(STATE);
  let reader = openFormat("trainer_state");
  assert.deepEqual(reader.read(whole.subarray(0, 200)).records, []);
  reader = restored(reader);
  assert.equal(reader.read(whole).records.length, 7);
  for (const text of ['{"log_history": [', "[1]", '{"log_history": 3}']) {
    const { records, problems } = readAll("trainer_state", bytesOf(text));
    assert.deepEqual([records.length, problems.map(({ what }) => what)], [0, ["corrupt"]], text);
  }
});

import { strict as assert } from "node:assert";
import { TextLines } from "../../../src/readers/text/text_lines.ts";
import { trialOf } from "../../../src/readers/text/trial_lines.ts";

const AT = "[I 2026-01-01 12:00:00,123] ";

Deno.test("trials: Optuna's lines are read, and nothing that only speaks of trials", () => {
  const table: [line: string, trial: ReturnType<typeof trialOf>][] = [
    [
      `${AT}Trial 3 finished with value: 0.5 and parameters: {'x': -1.5, 'kind': 'a}b', 'deep': True}. Best is trial 1 with value: 0.1.`,
      {
        number: 3,
        state: "finished",
        values: [0.5],
        parameters: { x: -1.5, kind: "a}b", deep: true },
      },
    ],
    [
      `${AT}Trial 0 finished with values: [1.0, 2e-05] and parameters: {'n': 3}.`,
      { number: 0, state: "finished", values: [1, 2e-5], parameters: { n: 3 } },
    ],
    [`${AT}Trial 12 pruned. `, { number: 12, state: "pruned", values: [], parameters: {} }],
    [
      "[W 2026-01-01 12:00:00,123] Trial 4 failed with parameters: {'lr': 0.1} because of the following error: ValueError('x').",
      { number: 4, state: "failed", values: [], parameters: { lr: 0.1 } },
    ],
    ["Trial 3 finished with value: 0.5 and parameters: {'x': 1}.", {
      number: 3,
      state: "finished",
      values: [0.5],
      parameters: { x: 1 },
    }],
    ["Trial 3 finished with value: good and parameters: {}", undefined],
    ["Trial 3 finished with value: 0.5", undefined],
    ["Trial 3 finished", undefined],
    ["A trial 3 finished with value: 0.5 and parameters: {}", undefined],
    [`Trial 3 finished with value: 0.5 and parameters: ${"{".repeat(20_000)}`, undefined],
  ];
  for (const [line, trial] of table) assert.deepEqual(trialOf(line), trial, line.slice(0, 80));
});

Deno.test("trials: a study's value is a point of the program's own curve; the dialect can be switched off", () => {
  const line =
    `\x1b[32m[I 2026-01-01 12:00:00,123]\x1b[0m Trial 3 finished with value: 0.5 and parameters: {'x': 1}.`;
  const fields = new TextLines().read(line)!;
  assert.deepEqual([fields.step, fields.scalars, fields.trial?.number], [
    3,
    [["trial/value", 0.5]],
    3,
  ]);
  assert.equal(new TextLines(["trial"]).read(line)?.trial, undefined);
});

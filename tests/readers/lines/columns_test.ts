import assert from "node:assert/strict";
import { parseLine } from "../../../src/readers/lines/parse_line.ts";
import { StepColumnsBuilder } from "../../../src/gen/records/step_columns.ts";

function columnsOf(...lines: string[]) {
  const builder = new StepColumnsBuilder<string, string[]>(() => []);
  for (const line of lines) {
    const parsed = parseLine(line, { agentId: "a", workerId: "" });
    assert(parsed.type === "step");
    builder.add(parsed.step);
  }
  assert.equal(builder.size, lines.length);
  const columns = builder.take();
  assert.equal(builder.size, 0);
  return columns;
}

Deno.test("columns: a column of defaults is left out, a label shared by all rows is one text", () => {
  assert.deepEqual(
    columnsOf(
      '{"type":"step","step_index":0,"reward":1}',
      '{"type":"step","step_index":1,"reward":0,"truncated":true}',
    ),
    { n: 2, step: [0, 1], reward: [1, 0], truncated: [0, 1], agentId: "a" },
  );
});

Deno.test("columns: labels that differ are a column", () => {
  assert.deepEqual(columnsOf('{"type":"step","agent_id":"x"}', '{"type":"step","backend":"b"}'), {
    n: 2,
    agentId: ["x", "a"],
    backend: ["", "b"],
  });
});

Deno.test("columns: rewards that are no finite number are texts", () => {
  assert.deepEqual(
    columnsOf('{"type":"step","reward":NaN}', '{"type":"step","reward":-Infinity}').reward,
    ["NaN", "-Infinity"],
  );
});

Deno.test("columns: no steps make no columns", () => {
  assert.deepEqual(new StepColumnsBuilder<string, string[]>(() => []).take(), { n: 0 });
});

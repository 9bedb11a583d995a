import { strict as assert } from "node:assert";
import { eventLine } from "../../src/cli/text/events_text.ts";

const LONG = "x".repeat(500);
const event = {
  ...{ seq: 1, at: null, run_id: "01A", run_name: "a", kind: "failed", attempt: 1 },
  data: { reason: "exit_code_1", hint: `Do this. ${LONG}`, stderr_tail: [LONG] },
};

Deno.test("events: where nobody looks nothing is cut", () => {
  const line = eventLine(event, { color: false, withRun: false, brief: false });
  assert.equal(
    line,
    `          failed reason=exit_code_1 hint=Do this. ${LONG} stderr_tail=["${LONG}"]\n`,
  );
});

Deno.test("events: on a terminal long values are cut, and the hint is told in full on a line of its own", () => {
  const [first, second, ...rest] = eventLine(event, { color: false, withRun: false, brief: true })
    .split("\n");
  assert.match(first!, /^ {10}failed reason=exit_code_1 stderr_tail=\["x+…$/);
  assert.ok(first!.length < 200);
  assert.equal(second, `          Do this. ${LONG}`);
  assert.deepEqual(rest, [""]);
});

import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";

Deno.test("log: one JSON object a line, with level, time, message and fields, the logger's own on every line", () => {
  const lines: string[] = [];
  const log = createLogger({ fields: { run_id: "R1" }, sinks: [(line) => lines.push(line)] });
  log.debug("not shown");
  log.warn({ error: "line one\nline two" }, "a run's message");
  assert.equal(lines.length, 1);
  assert.equal(lines[0]!.split("\n").length, 2, "a line break in a value must not break the line");
  const { time, ...rest } = JSON.parse(lines[0]!);
  assert.deepEqual(rest, {
    level: "warn",
    run_id: "R1",
    error: "line one\nline two",
    msg: "a run's message",
  });
  assert.ok(!Number.isNaN(Date.parse(time)));
});

Deno.test("log: the text form shows level, message and fields", () => {
  const lines: string[] = [];
  createLogger({ format: "text", sinks: [(line) => lines.push(line)] }).error({
    run_id: "R1",
    n: 3,
  }, "it broke");
  assert.match(lines[0]!, /^\S+ ERROR it broke {2}run_id=R1 n=3\n$/);
});

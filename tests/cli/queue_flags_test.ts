import { strict as assert } from "node:assert";
import { InvalidArgumentError } from "commander";
import { changedConfig } from "../../src/cli/verb/changed_config.ts";
import { momentText, queueFields } from "../../src/cli/verb/queue_flags.ts";

Deno.test("--begin: a clock time is the caller's next one; durations and times are passed on", () => {
  const now = new Date(2026, 10, 27, 17, 30, 0);
  for (
    const [text, at] of [
      ["18:00", new Date(2026, 10, 27, 18, 0)],
      ["17:30", new Date(2026, 10, 28, 17, 30)],
      ["7:05", new Date(2026, 10, 28, 7, 5)],
      ["17:30:01", new Date(2026, 10, 27, 17, 30, 1)],
      ["2026-12-01", new Date(2026, 11, 1)],
      ["2026-12-01 08:00", new Date(2026, 11, 1, 8)],
    ] as [string, Date][]
  ) assert.equal(momentText(text, now), at.toISOString(), text);
  for (const text of ["+2h", "+1h30m", "2026-11-27T18:00:00Z"]) {
    assert.equal(momentText(text, now), text);
  }
  for (const text of ["24:00", "tomorrow", "2h", "", "2026-13-01", "+"]) {
    assert.throws(() => momentText(text, now), InvalidArgumentError, text);
  }
});

Deno.test("submit: options change the config's fields, and nothing else of it", () => {
  const text =
    '{"run_name":"a","x":12345678901234567890,"nan":NaN,"metadata":{"queue":{"after":["a"],"begin":"+1h"}}}';
  assert.equal(changedConfig(text, { observe: true, queue: queueFields({}) }), text);
  assert.equal(
    changedConfig(text, { queue: queueFields({ after: ["a", "b:any"], afterNever: "cancel" }) }),
    '{"run_name":"a","x":12345678901234567890,"nan":NaN,' +
      '"metadata":{"queue":{"after":["a","b:any"],"begin":"+1h","after_never":"cancel"}}}',
  );
  const observed = '{"metadata":{"observe":["a"]}}';
  assert.equal(changedConfig(observed, { observe: ["b"] }), '{"metadata":{"observe":["a","b"]}}');
  assert.equal(changedConfig(observed, { observe: false }), '{"metadata":{"observe":false}}');
  assert.equal(
    changedConfig("{}", { queue: { begin: "+1h" } }),
    '{"metadata":{"queue":{"begin":"+1h"}}}',
  );
  for (const wrong of ["{", "[]", '{"metadata":3}']) {
    assert.equal(changedConfig(wrong, { queue: { begin: "+1h" } }), wrong);
  }
});

import assert from "node:assert/strict";
import { parseLine } from "../../../src/readers/lines/parse_line.ts";
import { linearPattern } from "../../../src/readers/schemas/patterns.ts";
import { hasPattern, telemetryValidator } from "../../../src/readers/schemas/validator.ts";

function violations(choice: { id: string; definition: unknown }, line: string): string[] {
  const parsed = parseLine(
    line,
    { agentId: "a", workerId: "" },
    telemetryValidator(choice, linearPattern)!.check,
  );
  assert(parsed.type === "step" || parsed.type === "episode", `${line} is ${parsed.type}`);
  return [...parsed.violations];
}

const DEFAULT = { id: "telemetry.step.default", definition: null };

const defaults: [string, string, string[]][] = [
  [
    "the documented step fits",
    '{"event_type":"step","episode":0,"step_index":4,"action":1,"reward":1.0,"terminated":false}',
    [],
  ],
  [
    "so does the proxy's own dialect",
    '{"type":"step","episode_index":0,"step_index":0,"reward":0,"action_json":"1"}',
    [],
  ],
  [
    "and the batch worker's",
    '{"type":"step","episode_id":"R-ep000003","step_index":0,"reward":0.0}',
    [],
  ],
  ["a missing reward", '{"type":"step","step_index":0}', ["reward: required"]],
  ["a step's total is not its reward", '{"type":"step","step_index":0,"episode_reward":1}', [
    "reward: required",
  ]],
  ["a negative index", '{"type":"step","step_index":-1,"reward":0}', ["step_index: minimum"]],
  ["flags as texts", '{"type":"step","step_index":0,"reward":"1","terminated":"no"}', [
    "reward: type",
    "terminated: type",
  ]],
  [
    "an episode by any of its names fits",
    '{"type":"episode_end","episode_index":4,"episode_steps":30,"episode_return":1.5}',
    [],
  ],
  ["an episode without its length", '{"type":"episode","total_reward":1}', ["steps: required"]],
];

Deno.test("telemetry schema: telemetry.step.default", async (t) => {
  for (const [about, line, expected] of defaults) {
    await t.step(about, () => assert.deepEqual(violations(DEFAULT, line), expected));
  }
});

Deno.test("telemetry schema: a built-in one looks into actions and observations, also where they are JSON in texts", () => {
  const minigrid = { id: "telemetry.step.minigrid@1", definition: null };
  assert.deepEqual(
    violations(
      minigrid,
      '{"type":"step","step_index":0,"reward":0,"action":9,"observation":{"direction":4}}',
    ),
    ["action: maximum", "observation.direction: maximum"],
  );
  assert.deepEqual(
    violations(
      minigrid,
      '{"type":"step","step_index":0,"reward":0,"action_json":"9","observation_json":"[1]"}',
    ),
    ["action: maximum"],
  );
});

Deno.test("telemetry schema: an inline definition wins over the id", () => {
  const definition = {
    type: "object",
    required: ["loss"],
    properties: {
      loss: { type: "number", exclusiveMinimum: 0 },
      tags: { type: "array", items: { type: "string" } },
    },
  };
  assert.deepEqual(violations({ id: DEFAULT.id, definition }, '{"type":"step"}'), [
    "loss: required",
  ]);
  assert.deepEqual(violations({ id: "", definition }, '{"type":"step","loss":0,"tags":[1,2]}'), [
    "loss: exclusiveMinimum",
    "tags[]: type",
  ]);
  assert.deepEqual(violations({ id: "", definition }, '{"type":"episode"}'), []);
});

Deno.test("telemetry schema: an inline definition may speak of steps and episodes apart", () => {
  const definition = { version: 3, episode: { required: ["success"] } };
  assert.equal(telemetryValidator({ id: "mine", definition })!.name, "mine@3");
  assert.deepEqual(violations({ id: "mine", definition }, '{"type":"episode"}'), [
    "success: required",
  ]);
  assert.deepEqual(violations({ id: "mine", definition }, '{"type":"step"}'), []);
});

Deno.test("telemetry schema: what has no effect is said", () => {
  assert.equal(telemetryValidator(null), undefined);
  assert.equal(telemetryValidator({ id: "", definition: null }), undefined);
  assert.match(
    telemetryValidator({ id: "cleanrl.ppo", definition: null })!.notes[0]!,
    /not built in/,
  );
  assert.match(
    telemetryValidator({ id: "telemetry.step.default@9", definition: null })!.notes[0]!,
    /not built in/,
  );
  const notes =
    telemetryValidator({ id: "", definition: { properties: { a: { oneOf: [] } } } })!.notes;
  assert.deepEqual(notes, ["schema_definition: a.oneOf is not supported and not checked"]);
  assert.match(
    telemetryValidator(
      { id: "", definition: { properties: { a: { pattern: "(" } } } },
      linearPattern,
    )!.notes[0]!,
    /cannot be used/,
  );
});

Deno.test("telemetry schema: a pattern takes time linear in the text, and one that would need more is refused", () => {
  const withPattern = (pattern: string) => ({
    id: "",
    definition: { properties: { a: { pattern } } },
  });
  const check = (pattern: string, a: string) =>
    violations(withPattern(pattern), JSON.stringify({ type: "step", a }));
  assert.deepEqual(check(String.raw`^[a-z]+-\d{2}$`, "abc-12"), []);
  assert.deepEqual(check(String.raw`^[a-z]+-\d{2}$`, "abc-1"), ["a: pattern"]);
  assert.deepEqual(check(String.raw`^\p{Lu}\u00e9/$`, "\u00c9\u00e9/"), []);
  for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "^a*a*a*a*a*$"]) {
    const start = performance.now();
    assert.deepEqual(check(pattern, `${"a".repeat(255)}!`), ["a: pattern"]);
    const took = performance.now() - start;
    assert(took < 1000, `${pattern} took ${took} ms`);
  }
  for (const pattern of ["(?=a)b", String.raw`(a)\1`, "a".repeat(1001)]) {
    assert(hasPattern(withPattern(pattern)));
    const { notes } = telemetryValidator(withPattern(pattern), linearPattern)!;
    assert.match(notes[0]!, /^schema_definition cannot be used: .*pattern/, pattern);
  }
  assert(!hasPattern(DEFAULT));
});

/**
 * What is read by comparing a line with an earlier one is what reading its fields gives, whatever
 * the lines are.
 */
import assert from "node:assert/strict";
import { Lines } from "../../../src/readers/lines/lines.ts";
import { ByteText } from "../../../src/base/text/byte_text.ts";
import { parseLine, readLine } from "../../../src/readers/lines/parse_line.ts";
import type { AlikeStep } from "../../../src/readers/lines/parsed_line.ts";
import { StepShapes } from "../../../src/readers/lines/step_shapes.ts";
import { Random } from "../../faults/random.ts";

const CONTEXT = { agentId: "a", workerId: "" };

/** Texts that lie among a line's bytes, as strings. */
function withStrings(step: AlikeStep["step"]): object {
  return Object.fromEntries(
    Object.entries(step).map((
      [key, value],
    ) => [key, value instanceof ByteText ? value.toString() : value]),
  );
}

/** Reads each line in both ways, one after the other. @returns how many were read by comparing */
function bothWays(texts: readonly string[]): number {
  const lines = Lines.of(...texts);
  const shapes = new StepShapes();
  let compared = 0;
  for (const [i, text] of texts.entries()) {
    const parsed = readLine(lines, i, CONTEXT, undefined, shapes);
    const isAlike = parsed.type === "alike";
    const read = isAlike
      ? { type: "step", step: withStrings(parsed.step), violations: [] }
      : parsed;
    assert.deepEqual(read, parseLine(text, CONTEXT), texts.slice(0, i + 1).join("\n"));
    if (isAlike) compared++;
  }
  return compared;
}

const INDEX = ["0", "7", "12", "999999999999999"];
const REALS = ["1.0", "-0.5", "0", "-0.0", "3.141592653589793", "1e-05", "123456789012345678"];
const JSONS = [
  "[0.1,-2]",
  "1",
  '"left"',
  '{"a":[1,{"b":null}]}',
  '"\\u00e9\\n"',
  '"ü"',
  "true",
  "[]",
];
const TIMES = [
  "1700000000000000001",
  "1700000000.25",
  '"2026-01-02T03:04:05Z"',
  "5",
  '" 1700000001 "',
  "-1",
];
const ODD = [
  "null",
  "NaN",
  "-Infinity",
  '"4"',
  "1.5",
  "-3",
  "01",
  "[",
  '{"x":2}',
  "true",
  '""',
  '"1e3"',
  "1E2",
  '"\\u0034"',
];
/** What a worker writes under each name. */
const VALUES: Record<string, string[]> = {
  ...Object.fromEntries(
    ["episode", "episode_index", "episode_number", "step_index", "step", "time_step", "seed"].map(
      (name) => [name, INDEX],
    ),
  ),
  reward: REALS,
  ...Object.fromEntries(["terminated", "truncated"].map((name) => [name, ["true", "false"]])),
  ...Object.fromEntries(
    ["action", "observation", "loss", "q", "kürzel"].map((name) => [name, JSONS.concat(REALS)]),
  ),
  ...Object.fromEntries(["ts", "timestamp", "ts_unix_ns"].map((name) => [name, TIMES])),
  ...Object.fromEntries(
    ["agent_id", "run_id", "episode_id", "frame_ref"].map((name) => [name, ['"x"', '"run-ep3"']]),
  ),
  metadata: ['{"episode_index":3,"m":1}', "{}"],
  observation_json: ['"[1]"', '"no"'],
  render_payload: ['{"mode":"ansi"}'],
  "lo\\u0073s": ["1", "2"],
};
const NAMES = Object.keys(VALUES);
const RARE = ["metadata", "observation_json", "render_payload", "lo\\u0073s"];

/** Lines of one layout, mostly with plain values of the same kind, as a worker writes them. */
function linesOf(random: Random): string[] {
  const names = ["event_type"];
  for (let i = random.int(1, 8); i > 0; i--) {
    const name = random.pick(NAMES);
    if ((!names.includes(name) && !RARE.includes(name)) || random.chance(0.05)) names.push(name);
  }
  const colon = random.pick([":", ": ", " : "]);
  const odd = random.pick([0, 0, 0.1]);
  const fixed = Object.fromEntries(
    names.map((name) => [name, random.chance(0.2) ? random.pick(VALUES[name] ?? ODD) : ""]),
  );
  return Array.from({ length: 30 }, () => {
    const fields = names.map((name) => {
      const plain = name === "event_type" ? '"step"' : fixed[name] || random.pick(VALUES[name]!);
      return `"${name}"${colon}${random.chance(odd) ? random.pick(ODD) : plain}`;
    });
    const kept = random.chance(0.05) ? fields.slice(0, -1) : fields;
    const line = `{${kept.join(random.chance(0.02) ? " , " : ", ")}}`;
    return random.chance(odd / 10) ? line.slice(0, random.int(1, line.length)) : line;
  });
}

Deno.test("shapes of steps: any lines are read as their fields are", () => {
  const random = new Random(14);
  let compared = 0;
  for (let round = 0; round < 1500; round++) compared += bothWays(linesOf(random));
  assert(compared > 15_000, `${compared} were read by comparing`);
});

Deno.test("shapes of steps: a worker's lines are read by comparing, also with times and fields of its own", () => {
  const line = (i: number) =>
    `{"type":"step","episode":${i >> 3},"step_index":${i & 7},"action":${i % 2},"observation":[${
      i / 7
    },-1e-05],"reward":${i / 3},"terminated":${i % 8 === 7},"truncated":false,"ts":${
      1.7e9 + i / 4
    },"loss":${i / 9}, "tag":"a${i}"}`;
  // All but the first, which was read by its fields.
  assert.equal(bothWays(Array.from({ length: 200 }, (_, i) => line(i))), 199);
});

Deno.test("shapes of steps: a null lets another field speak", () => {
  bothWays([
    '{"type":"step","episode_index":null,"episode":3,"reward":null,"step_index":null,"step":1}',
    '{"type":"step","episode_index":5,"episode":3,"reward":2,"step_index":4,"step":1}',
    '{"type":"step","episode_index":null,"episode":4,"reward":null,"step_index":null,"step":2}',
  ]);
});

Deno.test("shapes of steps: lines that are alike in nothing are not compared for ever", () => {
  const texts = Array.from(
    { length: 300 },
    (_, i) => `{"type":"step","agent_id":"a${i}","step":${i}}`,
  );
  assert.equal(bothWays([...texts, ...texts]), 0);
});

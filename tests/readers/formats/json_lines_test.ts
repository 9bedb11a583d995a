import assert from "node:assert/strict";
import { openFormat } from "../../../src/readers/formats.ts";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { assertSameHoweverRead, bytesOf, FIXTURES, readAll } from "./harness.ts";

const fixture = (name: string) => Deno.readFileSync(FIXTURES + name);

function brief(records: readonly SourceRecord[]): string[] {
  return records.map((r) => r.kind === "scalar" ? `${r.tag}@${r.step}=${r.value}` : r.kind);
}

Deno.test("JSON lines: Stable-Baselines3's progress.json", () => {
  const { records, problems } = assertSameHoweverRead("jsonl", fixture("sb3.progress.json"));
  assert.deepEqual(problems, []);
  assert.equal(records.length, 5 + 3 * 15);
  assert.deepEqual(brief(records).slice(0, 3), [
    "time/iterations@256=1",
    "rollout/ep_rew_mean@256=18.071428571428573",
    "rollout/ep_len_mean@256=18.071428571428573",
  ]);
});

Deno.test("JSON lines: Tune's result.json, nested, with NaN, and its configuration once", () => {
  const { records, problems } = assertSameHoweverRead("jsonl", fixture("tune.result.json"));
  assert.deepEqual(problems, []);
  assert.deepEqual(records[0], {
    kind: "params",
    origin: "config",
    wallTime: 1795374119,
    values: { lr: 0.25, net: { layers: [64, 64] }, env: "CartPole-v1" },
    removed: [],
  });
  assert.equal(records.filter((r) => r.kind === "params").length, 1);
  assert.deepEqual(
    brief(records).filter((name) => /^(score|bad|nested|pid|done|hist)/.test(name)),
    [
      ...["score@100=0", "nested/a@100=0", "nested/deep/b@100=0", "bad@100=NaN"],
      ...[
        "score@200=0.25",
        "nested/a@200=1",
        "nested/deep/b@200=0.3333333333333333",
        "bad@200=NaN",
      ],
      ...["score@300=0.5", "nested/a@300=2", "nested/deep/b@300=0.6666666666666666", "bad@300=NaN"],
    ],
  );
  const scalar = records.find((r) => r.kind === "scalar");
  assert.equal(scalar?.kind === "scalar" && scalar.wallTime, 1795374119);
});

Deno.test("JSON lines: what is odd", () => {
  const cases: readonly [line: string, expected: string[]][] = [
    ['{"step":1,"a":1,"b":"text","c":true,"d":null,"e":[1,2],"f":[3.5]}', ["a@1=1", "f@1=3.5"]],
    ['{"a": NaN, "b": Infinity, "c": -Infinity}', ["a@0=NaN", "b@0=Infinity", "c@0=-Infinity"]],
    ['{"a": "NaN", "b": NaN}', ["b@0=NaN"]],
    ['{"step": 1.5, "a": 1}', ["a@NaN=1"]],
    ['{"step": "7 of many", "a": 1}', ["a@NaN=1"]],
    ['{"step": "train", "a": 1}', ["a@0=1"]],
    ['{"step": "phase 1", "epoch": 3, "a": 1}', ["a@3=1"]],
    ['{"epoch": 0.5, "a": 1}', ["a@undefined=1"]],
    ['{"step": -1, "a": 1}', ["a@-1=1"]],
    ['{"__proto__": {"a": 1}, "b": 2, "x": NaN}', ["__proto__/a@0=1", "b@0=2", "x@0=NaN"]],
    ['{"config": 5, "a": 1}', ["a@0=1", "config@0=5"]],
    ["  ", []],
    ["{}", []],
  ];
  for (const [line, expected] of cases) {
    const { records, problems } = assertSameHoweverRead("jsonl", bytesOf(line + "\n"));
    assert.deepEqual(brief(records).sort(), expected.sort(), line);
    assert.deepEqual(problems, []);
  }
});

Deno.test("JSON lines: a line that is none is told with its place; a torn one waits for its end", () => {
  const text = '{"step":1,"a":1}\nnonsense\n[1]\n{"step":2,"a":2}\n{"step":3,';
  const { records, problems } = assertSameHoweverRead("jsonl", bytesOf(text));
  assert.deepEqual(brief(records), ["a@1=1", "a@2=2"]);
  assert.deepEqual(problems.map((p) => [p.what, p.at, p.bytes]), [
    ["corrupt", 17, 9],
    ["corrupt", 26, 4],
    ["torn", 47, 10],
  ]);
  const whole = readAll("jsonl", bytesOf('{"step":1,"a":1}\n{"step":2,"a":2}'));
  assert.deepEqual([brief(whole.records), whole.problems], [["a@1=1", "a@2=2"], []]);
});

Deno.test("JSON lines: a file of nonsense gives its problems in bounded parts", () => {
  const file = bytesOf("x\n".repeat(25_000));
  const first = openFormat("jsonl").read(file);
  assert.deepEqual([first.problems.length, first.again], [10_000, true]);
  assert.equal(readAll("jsonl", file).problems.length, 25_000);
});

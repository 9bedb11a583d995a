import assert from "node:assert/strict";
import {
  chooseRunsToPrune,
  type PrunableRun,
  type RetentionPolicy,
} from "../../../src/registry/retention/retention.ts";

const NOW = 1000;

function run(
  runId: string,
  finishedAt: number | null,
  fields: Partial<PrunableRun> = {},
): PrunableRun {
  return {
    runId,
    state: "TERMINATED",
    createdAt: 0,
    finishedAt,
    deletedAt: null,
    damaged: [],
    bytes: 10,
    ...fields,
  };
}

/** Four ended runs, two that live, and two whose rows are damaged. */
const RUNS = [
  run("c", 600, { state: "FAULTED" }),
  run("live", null, { state: "EXECUTING", bytes: 100 }),
  run("a", 100),
  run("d", 900, { state: "CANCELLED" }),
  run("b", 300),
  run("waits", null, { state: "INIT", bytes: 0 }),
  run("unknown", null, { state: "FAULTED", damaged: ["state"], bytes: 0 }),
  run("torn", 50, { damaged: ["tags"], bytes: 0 }),
];
const WITH_TRASH = [...RUNS, run("x", 950, { deletedAt: 990 }), run("y", 960, { deletedAt: 970 })];
const TRASH_CASES: [string, RetentionPolicy, string[]][] = [
  ["of a time: what is there for so long", { keepDeletedMs: 20 }, ["y:trash"]],
  ["it goes before all others, longest there first", { maxBytes: 130 }, [
    "y:size",
    "x:size",
    "a:size",
  ]],
  ["number and age are not for it", { keepLast: 4, olderThanMs: 0 }, []],
  ["with another limit", { keepDeletedMs: 0, keepLast: 3 }, ["y:trash", "x:trash", "a:number"]],
];
for (const [name, policy, expected] of TRASH_CASES) {
  Deno.test(`retention, the trash: ${name}`, () => {
    const chosen = chooseRunsToPrune(WITH_TRASH, policy, NOW);
    assert.deepEqual(chosen.map(({ run, because }) => `${run.runId}:${because}`), expected);
  });
}

const CASES: [string, RetentionPolicy, string[]][] = [
  ["the newest two are kept", { keepLast: 2 }, ["a:number", "b:number"]],
  ["none is kept", { keepLast: 0 }, ["a:number", "b:number", "c:number", "d:number"]],
  ["more are kept than there are", { keepLast: 9 }, []],
  ["by age", { olderThanMs: 500 }, ["a:age", "b:age"]],
  ["as old as the limit is not older", { olderThanMs: 900 }, []],
  ["by age, but the newest three stay", { olderThanMs: 500, keepLast: 3 }, ["a:age"]],
  ["by size: the oldest go until the rest fits", { maxBytes: 120 }, ["a:size", "b:size"]],
  ["by size: what fits stays", { maxBytes: 140 }, []],
  ["by size: live runs count and stay", { maxBytes: 0 }, ["a:size", "b:size", "c:size", "d:size"]],
  ["by size, but the newest stays", { maxBytes: 0, keepLast: 1 }, ["a:size", "b:size", "c:size"]],
  ["by age first, then by size", { olderThanMs: 800, maxBytes: 120 }, ["a:age", "b:size"]],
];

for (const [name, policy, expected] of CASES) {
  Deno.test(`retention: ${name}`, () => {
    const chosen = chooseRunsToPrune(RUNS, policy, NOW);
    assert.deepEqual(chosen.map(({ run, because }) => `${run.runId}:${because}`), expected);
  });
}

Deno.test("retention: a policy that says nothing, or something negative, is refused", () => {
  for (
    const policy of [{}, { keepLast: undefined }, { keepLast: -1 }, { keepLast: 1.5 }, {
      olderThanMs: Number.NaN,
    }, {
      maxBytes: -1,
    }]
  ) {
    assert.throws(
      () => chooseRunsToPrune(RUNS, policy, NOW),
      { code: "invalid_argument" },
      JSON.stringify(policy),
    );
  }
});

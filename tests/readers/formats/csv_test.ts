import assert from "node:assert/strict";
import { rowAt } from "../../../src/readers/tables/csv_row.ts";
import { openFormat } from "../../../src/readers/formats.ts";
import type { ScalarRecord, SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { assertSameHoweverRead, bytesOf, FIXTURES, readAll, readOn, restored } from "./harness.ts";

const fixture = (name: string) => Deno.readFileSync(FIXTURES + name);

/** Scalars as `tag@step=value`. */
function brief(records: readonly SourceRecord[]): string[] {
  return records.map((r) => r.kind === "scalar" ? `${r.tag}@${r.step}=${r.value}` : r.kind);
}

Deno.test("CSV rows: RFC 4180's quoting", () => {
  const cases: readonly [text: string, cells: string[]][] = [
    ["a,b\n", ["a", "b"]],
    ["a,b\r\n", ["a", "b"]],
    ["\n", [""]],
    [",\n", ["", ""]],
    ['"a,b",c\n', ["a,b", "c"]],
    ['"say ""hi""",2\n', ['say "hi"', "2"]],
    ['"two\nlines",x\r\n', ["two\nlines", "x"]],
    ['"",""\n', ["", ""]],
    ['a"b,c"d\n', ['a"b', 'c"d']],
    ['"ä€😀",1\n', ["ä€😀", "1"]],
    ['x,"tail"\n', ["x", "tail"]],
  ];
  for (const [text, cells] of cases) {
    const bytes = bytesOf(text);
    assert.deepEqual(rowAt(bytes, 0), { cells, bytes: bytes.length }, JSON.stringify(text));
    for (let to = 0; to < bytes.length; to++) {
      const torn = rowAt(bytes.subarray(0, to), 0);
      assert.equal(torn, undefined, `${JSON.stringify(text)} cut at ${to}`);
    }
  }
});

Deno.test("CSV: Stable-Baselines3's monitor.csv is episodes", () => {
  const { records, problems } = assertSameHoweverRead("csv", fixture("sb3.monitor.csv"));
  assert.deepEqual(problems, []);
  assert.equal(records.length, 11);
  assert.deepEqual(records.slice(0, 2), [
    {
      kind: "episode",
      step: 13,
      wallTime: 1795373703.0670085 + 3.194819,
      return: 13,
      length: 13,
      time: 3.194819,
      extra: {},
    },
    {
      kind: "episode",
      step: 36,
      wallTime: 1795373703.0670085 + 3.24446,
      return: 23,
      length: 23,
      time: 3.24446,
      extra: {},
    },
  ]);
});

Deno.test("CSV: monitor.csv with further columns and a missing reward", () => {
  const text =
    '#{"t_start": 10.5, "env_id": "A,b"}\r\nr,l,t,is_success\r\n,4,1.5,1\r\nnan,5,2,x\r\n';
  const { records } = assertSameHoweverRead("csv", bytesOf(text));
  const common = { kind: "episode" };
  assert.deepEqual(records, [
    {
      ...common,
      step: 4,
      wallTime: 12,
      return: null,
      length: 4,
      time: 1.5,
      extra: { is_success: 1 },
    },
    { ...common, step: 9, wallTime: 12.5, return: NaN, length: 5, time: 2, extra: {} },
  ]);
});

Deno.test("CSV: Stable-Baselines3's progress.csv", () => {
  const { records, problems } = assertSameHoweverRead("csv", fixture("sb3.progress.csv"));
  assert.deepEqual(problems, []);
  const names = brief(records);
  assert.deepEqual(names.slice(0, 6), [
    "time/time_elapsed@256=0",
    "time/fps@256=508",
    "rollout/ep_len_mean@256=18.071428571428573",
    "time/iterations@256=1",
    "rollout/ep_rew_mean@256=18.071428571428573",
    "time/time_elapsed@512=2",
  ]);
  assert.equal(names.length, 5 + 3 * 15);
});

Deno.test("CSV: a table of RLlib's kind has its configuration as parameters and a time", () => {
  const text =
    "timesteps_total,training_iteration,timestamp,trial_id,done,config/lr,config/env,loss\n" +
    "4000,1,1700000000,a1,False,0.001,CartPole-v1,0.5\n8000,2,1700000010,a1,True,0.001,CartPole-v1,\n";
  const { records } = assertSameHoweverRead("csv", bytesOf(text));
  assert.deepEqual(records[0], {
    kind: "params",
    origin: "config",
    wallTime: undefined,
    values: { lr: 0.001, env: "CartPole-v1" },
    removed: [],
  });
  assert.deepEqual(brief(records.slice(1)), [
    "training_iteration@4000=1",
    "loss@4000=0.5",
    "training_iteration@8000=2",
  ]);
  assert.equal((records[3] as ScalarRecord).wallTime, 1700000010);
});

Deno.test("CSV: Tune's progress.csv", () => {
  const { records, problems } = assertSameHoweverRead("csv", fixture("tune.progress.csv"));
  assert.deepEqual(problems, []);
  assert.deepEqual(
    brief(records).filter((name) => /^(score|bad|nested|pid|done|hist)/.test(name)),
    [
      ...["score@100=0", "bad@100=NaN", "nested/a@100=0", "nested/deep/b@100=0"],
      ...[
        "score@200=0.25",
        "bad@200=NaN",
        "nested/a@200=1",
        "nested/deep/b@200=0.3333333333333333",
      ],
      ...["score@300=0.5", "bad@300=NaN", "nested/a@300=2", "nested/deep/b@300=0.6666666666666666"],
    ],
  );
});

Deno.test("CSV: which column is the step", () => {
  const cases: readonly [header: string, row: string, expected: string[]][] = [
    ["step,loss", "7,1", ["loss@7=1"]],
    ["epoch,step,loss", "2,7,1", ["epoch@7=2", "loss@7=1"]],
    ["epoch,loss", "2,1", ["loss@2=1"]],
    ["global_step,step,loss", "9,3,1", ["step@9=3", "loss@9=1"]],
    ["loss", "0.5", ["loss@0=0.5"]],
    ["step,loss", ",0.5", ["loss@undefined=0.5"]],
    ["step,loss,name", "1,1e-05,text", ["loss@1=0.00001"]],
    ["step,a,b,c,d", "1,nan,inf,-inf,0x10", ["a@1=NaN", "b@1=Infinity", "c@1=-Infinity"]],
  ];
  for (const [header, row, expected] of cases) {
    const { records } = assertSameHoweverRead("csv", bytesOf(`${header}\n${row}\n`));
    assert.deepEqual(brief(records), expected, header);
  }
});

Deno.test("CSV: a last row without its newline may be a part of one, and is never read", () => {
  const { records, problems } = readAll("csv", bytesOf("step,loss\n1,0.5\n2,0.25"));
  assert.deepEqual(brief(records), ["loss@1=0.5"]);
  assert.deepEqual(problems.map((p) => [p.what, p.at, p.bytes]), [["torn", 16, 6]]);
});

Deno.test("CSV: a row with more cells than columns is told and passed over", () => {
  const { records, problems } = assertSameHoweverRead(
    "csv",
    bytesOf("step,loss\n1,2\n2,3,4\n3,4\n"),
  );
  assert.deepEqual(brief(records), ["loss@1=2", "loss@3=4"]);
  assert.deepEqual(problems.map((p) => [p.what, p.at, p.bytes]), [["corrupt", 14, 6]]);
});

Deno.test("CSV: a row without end is passed over at a bound", () => {
  const file = bytesOf(`step,loss\n1,"${"x".repeat(5 << 20)}\n2,0.5\n`);
  const { records, problems } = readAll("csv", file);
  assert.deepEqual(brief(records), ["loss@2=0.5"]);
  assert.deepEqual(problems.map((p) => p.what), ["too_large"]);
});

const REWRITTEN = JSON.parse(new TextDecoder().decode(fixture("rewritten_tables.json"))) as Record<
  string,
  string[]
>;

/** As the caller does at each poll: content, head, and a restart when it is another. */
function poll(reader: ReturnType<typeof openFormat>, file: Uint8Array, end = false) {
  if (file.length < reader.offset || !reader.isSame(file.subarray(0, reader.headBytes))) {
    reader.restart();
  }
  return readOn(reader, file, { end });
}

for (const [program, versions] of Object.entries(REWRITTEN)) {
  Deno.test(`CSV: ${program} writes its table anew for a new column: nothing is repeated, nothing lost`, () => {
    const files = versions.map(bytesOf);
    const expected = brief(readAll("csv", files.at(-1)!).records).sort();
    assert.ok(expected.length > 5);
    // Any of the versions may be missed between two polls.
    for (let seen = 0; seen < 1 << (files.length - 1); seen++) {
      let reader = openFormat("csv");
      const records: SourceRecord[] = [];
      files.forEach((file, i) => {
        if (i < files.length - 1 && (seen & (1 << i)) === 0) return;
        const found = poll(reader, file, i === files.length - 1);
        assert.deepEqual(found.problems, []);
        records.push(...found.records);
        reader = restored(reader);
      });
      assert.deepEqual(brief(records).sort(), expected, `versions seen: ${seen.toString(2)}`);
    }
  });
}

Deno.test("CSV: a table that is seen while it is being rewritten is read again, not given twice", () => {
  const [narrow, wide] = [
    "step,a\n" + Array.from({ length: 9 }, (_, i) => `${i},${i / 2}\n`).join(""),
    "step,a,b\n" + Array.from({ length: 9 }, (_, i) => `${i},${i / 2},\n`).join("") + "9,4.5,1\n",
  ].map(bytesOf) as [Uint8Array, Uint8Array];
  const rowEnds = [...narrow].flatMap((byte, i) => byte === 10 ? [i + 1] : []);
  for (const read of rowEnds) {
    for (let written = 9; written < wide.length; written++) {
      const reader = openFormat("csv");
      const found = readOn(reader, narrow.subarray(0, read));
      // Written in place, as Stable-Baselines3 does: the old content stands behind the new.
      const mixed = new Uint8Array(Math.max(written, narrow.length));
      mixed.set(narrow);
      mixed.set(wide.subarray(0, written));
      if (read > 7) found.records.push(...poll(reader, mixed).records);
      found.records.push(...poll(restored(reader), wide, true).records);
      assert.deepEqual(
        brief(found.records),
        brief(readAll("csv", wide).records),
        `${read} read, ${written} written`,
      );
    }
  }
});

Deno.test("CSV: a table that is written anew twice before it was read to the end gives nothing twice", () => {
  const table = (columns: string[], rows: number) =>
    bytesOf(
      [
        ["step", ...columns],
        ...Array.from({ length: rows }, (_, i) => [i, ...columns.map(() => i / 2)]),
      ].join("\n") +
        "\n",
    );
  const reader = openFormat("csv");
  assert.equal(poll(reader, table(["a"], 5)).records.length, 5);
  assert.deepEqual(poll(restored(reader), bytesOf("step,a,b\n0,0,\n1,0.5,\n")), {
    records: [],
    problems: [],
  });
  const again = restored(reader);
  poll(again, bytesOf("step,a,b\n0,0,\n1,0.5,\n"));
  const third = bytesOf("step,a,b,c\n0,0,,\n1,0.5,,\n2,1,,\n3,1.5,,\n4,2,,\n5,2.5,7,8\n");
  assert.deepEqual(brief(poll(restored(again), third, true).records), [
    "a@5=2.5",
    "b@5=7",
    "c@5=8",
  ]);
});

Deno.test("CSV: a table with other rows is a new one, and is told", () => {
  const reader = openFormat("csv");
  poll(reader, bytesOf("step,a\n1,1\n2,2\n3,3\n"));
  const other = bytesOf("step,a,b\n1,1,0\n2,5,0\n3,3,0\n4,4,0\n");
  const all = brief(readAll("csv", other).records);
  const found = poll(reader, other);
  // A few polls are waited for, in case the table is being written.
  for (let i = 0; i < 3; i++) {
    const { records, problems } = readOn(reader, other);
    found.records.push(...records);
    found.problems.push(...problems);
  }
  assert.deepEqual(brief(found.records), all);
  assert.deepEqual(found.problems.map((p) => p.what), ["replaced"]);
});

Deno.test("CSV: a run that truncates its table and begins anew gives its rows", () => {
  const reader = openFormat("csv");
  poll(reader, bytesOf("step,a\n1,1\n2,2\n"));
  poll(reader, new Uint8Array(0));
  const found = poll(reader, bytesOf("step,a\n1,7\n"), true);
  assert.deepEqual(brief(found.records), ["a@1=7"]);
  assert.deepEqual(found.problems.map((p) => p.what), ["replaced"]);
});

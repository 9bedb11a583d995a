/**
 * Tables and texts in other shapes than trackers write: however they are cut, the records are the
 * same.
 */
import assert from "node:assert/strict";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { assertSameHoweverRead, bytesOf } from "./harness.ts";

function brief(records: readonly SourceRecord[]): string {
  return records.map((r) => r.kind === "scalar" ? `${r.tag}@${r.step}=${r.value}` : r.kind).join(
    " ",
  );
}

Deno.test("CSV: separators, padding, headers in the middle and none", () => {
  const cases: [text: string, expected: string, problems?: string[]][] = [
    ["epoch;loss\n1;0,5\n2;0.25\n", "loss@1=0.5 loss@2=0.25"],
    ["epoch\tloss\n1\t0.5\n", "loss@1=0.5"],
    ["   epoch,    loss\n       1,     0.5\n", "loss@1=0.5"],
    ["step,loss\n1k,0.5\n10/100,0.25\n", "loss@1000=0.5 loss@10=0.25"],
    ["# step,loss\n1,0.5\n2,0.25\n", "loss@1=0.5 loss@2=0.25"],
    ["step,loss\n0,1\nstep,loss\n0,2\n", "loss@0=1 loss@0=2"],
    ["step,loss\n0,1\nstep,loss,val_loss\n2,0.8,0.9\n", "loss@0=1 loss@2=0.8 val_loss@2=0.9"],
    ["loss,step\n1,0\nstep,loss\n2,0.8\n", "loss@0=1 loss@2=0.8"],
    // Texts in a column of texts are no header.
    ["step,stage\n0,start\nlast,end\n1,x\n", ""],
    ["0.5,10\n0.6,20\n", "", ["no_form"]],
    [
      '#{"t_start": 1790000000.0}\nr,l,t\n1,20,40\n#{"t_start": 1790000100.0}\nr,l,t\n2,30,70\n',
      "episode episode",
    ],
  ];
  for (const [text, expected, problems = []] of cases) {
    const found = assertSameHoweverRead("csv", bytesOf(text));
    assert.equal(brief(found.records), expected, text);
    assert.deepEqual(found.problems.map(({ what }) => what), problems, text);
  }
});

Deno.test("CSV: of too many names of columns the first ones are read, and one problem says how many", () => {
  const names = Array.from(
    { length: 1100 },
    (_, i) => `gradient_norm/model.encoder.layers.${i}.attention.weight`,
  );
  const text = [
    "step,loss," + names.join(","),
    `0,0.5,${names.map(() => 1)}`,
    `1,0.25,${names.map(() => 1)}`,
    "",
  ].join(
    "\n",
  );
  const { records, problems } = assertSameHoweverRead("csv", bytesOf(text));
  const loss = records.filter((r) => r.kind === "scalar" && r.tag === "loss");
  assert.equal(brief(loss), "loss@0=0.5 loss@1=0.25");
  assert.match(
    problems.map(({ detail }) => detail).join(),
    /^too many columns: the names of the first \d+ of 1102 fit/,
  );
});

Deno.test("text file: lines, bars behind returns, tables, and what is not read", () => {
  const rule = "-".repeat(20);
  const text = [
    "INFO:root:step=1 loss=0.5",
    " 10%|#  | 1/10 [00:01<00:09, 1it/s, acc=0.1]\r 20%|## | 2/10 [00:01<00:08, 1it/s, acc=0.2]",
    `${rule}\n| a/  |  |\n|    b | 3 |\n${rule}`,
    "step=x loss=1",
    "nothing here",
    "step: 2, loss: 0.25",
  ].join("\n");
  const { records, problems } = assertSameHoweverRead("text", bytesOf(text));
  assert.equal(
    brief(records),
    "loss@1=0.5 acc@1=0.1 progress acc@2=0.2 progress a/b@undefined=3 loss@2=0.25",
  );
  assert.deepEqual(problems.map(({ what }) => what), ["no_step"]);
});

import { strict as assert } from "node:assert";
import { TextLines } from "../../../src/readers/text/text_lines.ts";

Deno.test("ranks: each process that prints has series of its own; rank 0 has the plain names", () => {
  const table: [line: string, names: string][] = [
    ["[rank0]: step=10 loss=0.5", "loss"],
    ["[rank1]: step=10 loss=0.6", "loss@rank1"],
    ["[default3]:step=10 loss=0.6", "loss@rank3"],
    ["[1,2]<stdout>:step=10 loss=0.6", "loss@rank2"],
    ["step=10 rank=0 loss=0.5", "loss"],
    ["step=10 rank=1 loss=0.5", "loss@rank1"],
    ['{"step": 10, "rank": 2, "loss": 0.5}', "loss@rank2"],
    // A rank is no process without a step, with a fraction, or alone.
    ["rank=1 loss=0.5", "rank loss"],
    ["step=10 rank=1.5 loss=0.5", "rank loss"],
    ["step=10 rank=3", "rank"],
    ["[INFO] step=10 loss=0.5", "loss"],
    ["step=10 loss=0.5", "loss"],
  ];
  const found = table.map((
    [line],
  ) => [line, new TextLines().read(line)?.scalars.map(([tag]) => tag).join(" ")]);
  assert.deepEqual(found, table);
});

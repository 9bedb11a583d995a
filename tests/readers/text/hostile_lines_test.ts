/** Lines that are made to take time: each is read at once, or the test does not end. */
import { strict as assert } from "node:assert";
import { Lines } from "../../../src/readers/lines/lines.ts";
import { barOf } from "../../../src/readers/text/progress_bars.ts";
import { segmentsOf } from "../../../src/readers/text/segments.ts";
import { readTextLine } from "../../../src/readers/text/text_lines.ts";

const LONG = 60_000;
const blanks = " ".repeat(LONG);

Deno.test("long blanks, bars and names in printed lines take no more time than their length", () => {
  const lines = [
    `1/1 ${"━".repeat(LONG)} x`,
    `1/1${blanks.slice(LONG / 2)}━${blanks.slice(LONG / 2)}x`,
    `1/1 [==]${blanks}x]`,
    `step=1 loss=[${blanks}x`,
    `step: 1 loss [${blanks}x`,
    `loss=1 foo ${"_loss".repeat(LONG / 5)}`,
  ];
  for (const line of lines) {
    assert.equal(readTextLine(line)?.scalars.length ?? 0, 0, line.slice(0, 20));
  }
  const printed = `${"%|".repeat(200)}\r${"%|".repeat(200)}{${"x".repeat(LONG)}`;
  assert.equal(segmentsOf(Lines.of(printed), 0)?.length, 2);
});

Deno.test("a bar of Keras with wide blanks is one", () => {
  const line = "10/10  ━━━━━━━━━━  1s   10ms/step -  accuracy: 0.1 - loss: 2.3";
  assert.deepEqual(barOf(line), {
    at: 10,
    of: 10,
    title: "",
    values: "accuracy: 0.1 - loss: 2.3",
    rest: "",
  });
  assert.deepEqual(readTextLine("step=3 loss=[ 0.5 ]")?.scalars, [["loss", 0.5]]);
});

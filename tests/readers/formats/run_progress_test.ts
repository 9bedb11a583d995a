import assert from "node:assert/strict";
import { RunProgress } from "../../../src/readers/text/run_progress.ts";
import { TextLines } from "../../../src/readers/text/text_lines.ts";

/** What is told after each line, without repeats; the state is restored after each. */
function told(...lines: string[]): (number | null)[] {
  let progress = new RunProgress();
  const parts: (number | null)[] = [];
  for (const line of lines) {
    progress = new RunProgress(JSON.parse(JSON.stringify(progress.state)));
    new TextLines([], progress).read(line);
    const part = progress.take();
    if (part !== undefined) parts.push(part);
  }
  return parts;
}

const tqdm = (title: string, at: number, of: number) =>
  `${title === "" ? "" : `${title}: `}${
    Math.floor(100 * at / of)
  }%|██   | ${at}/${of} [00:01<00:09, 10.0it/s]`;

Deno.test("progress: one bar of tqdm, told when it has moved by a hundredth", () => {
  assert.deepEqual(
    told(tqdm("", 1, 1000), tqdm("", 5, 1000), tqdm("", 12, 1000), tqdm("", 500, 1000)),
    [
      ...[0.001, 0.012, 0.5],
    ],
  );
});

Deno.test("progress: a bar within epochs counts as their part, and so do Keras' lines", () => {
  assert.deepEqual(
    told(tqdm("Epoch 1/4", 5, 10), tqdm("Epoch 2/4", 0, 10), tqdm("Epoch 2/4", 10, 10)),
    [
      ...[0.125, 0.25, 0.5],
    ],
  );
  assert.deepEqual(
    told(
      "Epoch 1/2",
      " 5/10 ━━━━━━━━━━ 1s 10ms/step - loss: 2.3",
      "Epoch 2/2",
      "10/10 ━━━━━━━━━━ 1s 10ms/step - loss: 1",
    ),
    [0, 0.25, 0.5, 1],
  );
});

Deno.test("progress: lines with values and their epoch or step", () => {
  assert.deepEqual(told("Epoch 1/10 - loss: 0.5", "Epoch 2/10 - loss: 0.4"), [0.1, 0.2]);
  assert.deepEqual(told("Epoch [3/10], Step [50/100], Loss: 0.4"), [0.25]);
  assert.deepEqual(told("step 200/1000: loss 0.5"), [0.2]);
});

Deno.test("progress: the outer of two bars; an inner one that begins again says nothing alone", () => {
  assert.deepEqual(
    told(tqdm("epochs", 1, 4), tqdm("", 9, 10), tqdm("", 1, 10), tqdm("epochs", 2, 4)),
    [0.25, 0.5],
  );
  assert.deepEqual(told(tqdm("", 5, 10), tqdm("", 9, 10), tqdm("", 1, 10), tqdm("", 5, 10)), [
    0.5,
    0.9,
    null,
  ]);
});

Deno.test("progress: preparations, tests, epochs without their number, and prose say nothing", () => {
  assert.deepEqual(
    told(
      tqdm("Downloading data", 5, 10),
      tqdm("Map", 5, 10),
      tqdm("Validation DataLoader 0", 5, 10),
      tqdm("Epoch 3", 5, 10),
      "Test 3/10 passed",
      "we saw step 3/10 of the plan",
      "see chapter 3 of 10: epochs",
      "Epoch 11/10 - loss: 0.5",
    ),
    [],
  );
});

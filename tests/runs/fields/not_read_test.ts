/** When a list of runs says that something was not read. */
import { strict as assert } from "node:assert";
import { LINES_NOT_READ } from "../../../src/readers/text/not_read.ts";
import { notReadNote } from "../../../src/runs/fields/not_read_text.ts";

Deno.test("a few unread lines are no note of a run whose numbers were read; a damaged file is", () => {
  const read = { steps: 0, episodes: 0, metrics: 20 };
  const corrupt = "not read: progress.csv: a row of 9 cells below 8 columns";
  for (const { what } of Object.values(LINES_NOT_READ)) {
    const name = `not read: stdout: ${what}`;
    assert.equal(notReadNote({ ...read, violations: { [name]: 1 } }), "", what);
    assert.equal(notReadNote({ ...read, violations: { [name]: 1000 } }), name, what);
    assert.equal(notReadNote({ ...read, metrics: 0, violations: { [name]: 1 } }), name, what);
    assert.equal(notReadNote({ ...read, violations: { [name]: 1, [corrupt]: 1 } }), corrupt, what);
  }
});

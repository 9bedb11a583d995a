/** What the page shows of steps that a damaged block has taken, in a real browser. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { chromiumPath, launch, openPage } from "./chromium.ts";

const executable = chromiumPath();

const WORKER = `awk 'BEGIN { for (i = 0; i < 3000; i++)
  printf "{\\"event_type\\":\\"step\\",\\"episode\\":0,\\"step_index\\":%d,\\"reward\\":%d}\\n", i, i + 1 }'`;

Deno.test({
  name: "page: a table of steps has a row for those that are damaged, in the middle and at the end",
  ignore: executable === undefined,
  sanitizeOps: false,
  sanitizeResources: false,
}, async () => {
  await using daemon = await TestDaemon.start();
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", WORKER] }));
  await untilState(daemon, run, "TERMINATED");
  await daemon.stop();
  const db = new DatabaseSync(daemon.layout.telemetryDb);
  const blocks = db.prepare("SELECT first_seq AS first, n FROM step_blocks ORDER BY 1").all() as {
    first: number;
    n: number;
  }[];
  const [first, last] = [blocks[0]!, blocks.at(-1)!];
  assert.ok(blocks.length > 2, `${blocks.length} blocks`);
  db.exec(
    `UPDATE step_blocks SET crc = crc + 1 WHERE first_seq IN (${first.first}, ${last.first})`,
  );
  db.close();
  await daemon.restart();
  const browser = await launch(executable!);
  try {
    const { page, errors } = await openPage(browser);
    await page.goto(`http://${daemon.http}/runs/${run}#steps`);
    const gap = page.locator("#panel-steps .missing");
    const text = (from: number, to: number) => {
      const [a, b, n] = [from, to, to - from + 1].map((number) => number.toLocaleString("en"));
      return `${a} to ${b} (${n}) are missing or damaged: mosaic doctor`;
    };
    // The newest 100 are shown first.
    await gap.first().waitFor();
    assert.deepEqual(await gap.allTextContents(), [text(Math.max(2901, last.first), 3000)]);
    await page.locator("#panel-steps").getByRole("button", { name: "First" }).click();
    await page.locator("#panel-steps tbody button", { hasText: (first.n + 1).toLocaleString("en") })
      .first().waitFor();
    assert.deepEqual(await gap.allTextContents(), [text(1, first.n)]);
    assert.equal(await page.locator("#panel-steps tbody tr").count(), 101);
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
  }
});

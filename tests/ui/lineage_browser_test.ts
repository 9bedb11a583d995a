/** What a run has read of others, on its page. */
import assert from "node:assert/strict";
import { violations } from "./axe.ts";
import { inBrowser } from "./in_browser.ts";

inBrowser(
  "lineage: a run's artifacts lead to those who have read them, and back",
  async ({ core, page, base }) => {
    const [train, reader, alone] = ["train", "reader", "alone"].map((name) =>
      core.addExecuting(name)
    );
    const { runId } = train!;
    const [path, sha256] = ["checkpoints/best.pt", "ab".repeat(32)];
    core.registry.putArtifact({
      runId,
      path,
      kind: "checkpoint",
      bytes: 1,
      sha256,
      step: null,
      windowId: "",
      at: 1,
    });
    core.lineage.name(`${runId}:${path}`, "policy", ["best"]);
    for (const artifact of ["policy:best", "nothing:there"]) {
      core.lineage.used(core.runs.require(reader!.runId), {
        dataJson: JSON.stringify({ payload: { artifact } }),
      });
    }
    await page.goto(`${base}/runs/${runId}#artifacts`);
    const readers = page.getByRole("table", { name: "Runs that have read its artifacts" });
    await page.getByText("checkpoints/best.pt is policy:v1, policy:best").waitFor();
    assert.deepEqual(await violations(page), []);
    await readers.getByRole("link", { name: "reader" }).click();
    await page.waitForURL(`${base}/runs/${reader!.runId}**`);
    await page.getByRole("tab", { name: "Artifacts" }).click();
    const read = page.getByRole("table", { name: "Artifacts that it has read" });
    await read.getByText("not found").waitFor();
    assert.match(
      await read.innerText(),
      /this run\s+checkpoints\/best\.pt\s+train\s+policy:best\s+abababababab/,
    );
    await page.goto(`${base}/runs/${alone!.runId}#artifacts`);
    await page.getByText("No artifacts yet").waitFor();
    assert.equal(await page.locator("section.lineage").count(), 0);
  },
);

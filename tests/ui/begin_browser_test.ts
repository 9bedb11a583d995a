/** The page in a real browser: where there is nothing yet, and what a person begins from there. */
import assert from "node:assert/strict";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { inBrowser } from "./in_browser.ts";

inBrowser(
  "without runs, the list shows the commands to begin with, which can be copied, and the manual",
  async (scene) => {
    const { core, page, base } = scene;
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
    await page.goto(base);
    const start = page.getByRole("region", { name: "How to begin" });
    const commands = ["mosaic run -- python train.py", "mosaic import runs/", "mosaic docs"];
    for (const command of commands) {
      await start.getByRole("button", { name: `Copy ${command}` }).click();
      await page.getByText("Copied.").last().waitFor();
      assert.equal(await page.evaluate("navigator.clipboard.readText()"), command);
    }
    // Over HTTP from elsewhere, a browser has no clipboard for pages.
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await start.getByRole("button", { name: `Copy ${commands[0]}` }).click();
    await page.getByText(/^Selected/).waitFor();
    assert.equal(await page.evaluate("String(getSelection())"), commands[0]);
    assert.equal(await page.getByRole("search").isVisible(), false, "there is nothing to filter");
    await page.locator("#connection[data-state=live]").waitFor();
    assert.deepEqual(await violations(page), []);
    core.addExecuting("the-first");
    await page.locator("tr", { hasText: "the-first" }).waitFor();
    await start.waitFor({ state: "detached" });
    await page.getByRole("search").waitFor();
    await page.getByRole("banner").getByRole("link", { name: "Manual" }).click();
    await page.waitForURL(`${base}/docs/index.html`);
    await page.getByRole("heading", { name: "Tutorial" }).first().waitFor();
  },
);

inBrowser(
  "an address without anything is a 404 with ways on; programs get JSON",
  async ({ core, page, base }) => {
    core.addExecuting("sought");
    for (const path of ["/nothing", "/docs/nothing.html"]) {
      assert.equal((await page.goto(base + path))!.status(), 404, path);
      await page.getByRole("heading", { name: "There is nothing here." }).waitFor();
      const answer = await fetch(base + path);
      assert.equal(answer.status, 404);
      assert.equal((await answer.json()).error.code, "not_found");
    }
    await page.goto(`${base}/runs/NOSUCH`);
    await page.getByRole("heading", { name: "There is no run NOSUCH." }).waitFor();
    await page.locator("#connection[data-state=live]").waitFor();
    assert.deepEqual(await violations(page), []);
    await page.getByRole("searchbox", { name: "Find a run" }).fill("sough");
    await page.keyboard.press("Enter");
    await page.locator("tr", { hasText: "sought" }).waitFor();
    assert.match(page.url(), /\/\?name=sough$/);
  },
);

inBrowser(
  "run again: a dialog with command and parameters submits another run with what was changed",
  async (scene) => {
    const { core, page, base } = scene;
    const words = ["--lr", "0.1", "--env", "CartPole-v1"];
    const config = {
      run_name: "first",
      entry_point: "/bin/true",
      arguments: words,
      environment: {},
      resources: { gpus: { requested: 0 } },
      artifacts: {},
      metadata: { tags: ["demo"] },
    };
    const { runId } = core.submit(JSON.stringify(config));
    await page.goto(`${base}/runs/${runId}`);
    await page.getByRole("button", { name: "Run again" }).click();
    const dialog = page.getByRole("dialog", { name: "Run again with changes" });
    await dialog.getByText("/bin/true --lr 0.1 --env CartPole-v1").waitFor();
    assert.deepEqual(await violations(page), []);
    const parameters = dialog.getByRole("textbox", { name: "Parameters" });
    const lines = await parameters.inputValue();
    assert.deepEqual(lines.split("\n").toSorted(), ["env=CartPole-v1", "lr=0.1"]);
    await parameters.fill(`${lines}\nlrr=3`);
    await dialog.getByRole("button", { name: "Submit" }).click();
    await dialog.getByRole("alert").getByText(/no parameter "lrr".*lr/).waitFor();
    await parameters.fill(lines.replace("0.1", "3e-4"));
    await dialog.getByRole("textbox", { name: "Tags" }).fill("demo, again");
    await dialog.getByRole("textbox", { name: "Name" }).fill("second");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "second" }).waitFor();
    await dialog.waitFor({ state: "detached" });
    const made = core.runs.require(page.url().split("/").at(-1)!);
    assert.notEqual(made.runId, runId);
    const { arguments: now, metadata } = JSON.parse(made.configJson);
    assert.deepEqual(now, ["--lr", "3e-4", "--env", "CartPole-v1"]);
    assert.deepEqual([metadata.tags, metadata.submission.rerun_of], [["demo", "again"], runId]);
    assert.deepEqual(JSON.parse(core.runs.require(runId).configJson).arguments, words);
    await page.goto(base);
    await page.getByRole("checkbox", { name: /second/ }).check();
    await page.getByRole("button", { name: "Run again" }).click();
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
  },
);

inBrowser(
  "columns: hidden, moved and added ones are in the address, and the same in a new tab",
  async (scene) => {
    const { core, page, base } = scene;
    const { runId } = core.addExecuting("one");
    core.addEpisode(runId, 20);
    await page.goto(base);
    await page.getByRole("link", { name: "one" }).waitFor();
    const heads = () =>
      page.locator("th[data-column]").evaluateAll((all) =>
        all.map((e) => e.getAttribute("data-column"))
      );
    const usual = await heads();
    await page.getByRole("button", { name: "Columns" }).click();
    const dialog = page.getByRole("dialog", { name: "Columns" });
    await dialog.getByRole("checkbox", { name: "GPUs" }).uncheck();
    await dialog.getByRole("button", { name: "Note earlier" }).click();
    const note = usual.indexOf("note");
    const expected = usual.filter((name) => name !== "gpus" && name !== "note").toSpliced(
      note - 2,
      0,
      "note",
    );
    await until(async () => (await heads()).join() === expected.join(), {
      what: "the columns",
      state: heads,
    });
    assert.deepEqual(await violations(page), []);
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("link", { name: "one" }).waitFor();
    assert.deepEqual(await heads(), expected);
    await page.goto(`${base}/?column=name&column=reward&column=nonsense`);
    await page.getByRole("link", { name: "one" }).waitFor();
    assert.deepEqual(await heads(), ["state", "name", "reward"]);
    await page.getByText('no column "nonsense"').waitFor();
    await page.getByRole("button", { name: "Columns" }).click();
    await dialog.getByRole("button", { name: "Usual columns" }).click();
    await until(async () => (await heads()).join() === usual.join(), {
      what: "the usual columns",
      state: heads,
    });
    assert.equal(new URL(page.url()).search, "");
  },
);

inBrowser(
  "a deletion is undone in its notice or in the trash, from where it can also be made final",
  async (scene) => {
    const { core, page, base } = scene;
    const runs = ["kept", "first", "second"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) core.ended(runId);
    await page.goto(base);
    await page.locator("tr", { hasText: "first" }).getByRole("checkbox").check();
    await page.locator("tr", { hasText: "second" }).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText("Deleted 2 runs.").waitFor();
    await page.locator("tr", { hasText: "first" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await page.locator("tr", { hasText: "first" }).waitFor();
    assert.equal(core.registry.count({}), 3);

    await page.goto(`${base}/runs/${runs[1]!.runId}`);
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText('Deleted "first".').waitFor();
    await page.getByRole("button", { name: "Deleted runs (1) …" }).click();
    const trash = page.getByRole("dialog", { name: "Deleted runs" });
    await trash.getByRole("button", { name: "Restore first" }).click();
    await trash.getByText("The trash is empty.").waitFor();
    assert.equal(core.registry.count({}), 3);
    assert.deepEqual(await violations(page), []);
    await trash.getByRole("button", { name: "Close" }).click();

    await core.delete(runs[2]!.runId, false);
    await page.getByRole("button", { name: "Deleted runs (1) …" }).click();
    await trash.getByRole("button", { name: "Delete second for good" }).click();
    const question = page.getByRole("dialog", { name: "Delete for good?" });
    await question.waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Keep as it is");
    await page.keyboard.press("Enter");
    await question.waitFor({ state: "detached" });
    assert.notEqual(core.registry.known(runs[2]!.runId), undefined);
    await trash.getByRole("button", { name: "Delete second for good" }).click();
    await question.getByRole("button", { name: "Delete", exact: true }).click();
    await trash.getByText("The trash is empty.").waitFor();
    assert.equal(core.registry.known(runs[2]!.runId), undefined);
  },
);

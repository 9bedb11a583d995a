/** The page in a real browser, over a core without processes. The steps share one browser and one daemon's page. */
import assert from "node:assert/strict";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { createLogger } from "../../src/log.ts";
import { type PageServer, startPage } from "../../src/ui/server.ts";
import { until } from "../harness/wait.ts";
import { chromiumPath, launch, openPage } from "./chromium.ts";
import { FakeCore } from "./fake_core.ts";

const XSS = `<script>globalThis.broken=1</script><img src=x onerror="globalThis.broken=1">"'\`{{TOKEN}}`;
const executable = chromiumPath();

async function violations(page: Page): Promise<string[]> {
  // Evaluated by the debugger's protocol, which the page's policy does not concern.
  if (!await page.evaluate(() => "axe" in globalThis)) await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: typeof axe }).axe.run(document, {
      resultTypes: ["violations"],
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    })
  );
  return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`));
}

const points = (page: Page, series: string) =>
  page.locator(`[data-series=${series}] .plot`).evaluate((e) => Number((e as HTMLElement).dataset.points ?? 0));

if (executable === undefined) {
  Deno.test("page in a browser", () => console.log("SKIPPED: no Chromium on this machine"));
} else {
  Deno.test("page in a browser", async (t) => {
    const directory = await Deno.makeTempDir();
    const core = new FakeCore(directory);
    const log = createLogger({ level: "fatal" });
    let server: PageServer | undefined = await startPage(core, { http: "127.0.0.1:0", log, tickMs: 100 });
    const { address } = server;
    const base = `http://${address}`;
    let browser: Browser | undefined;
    try {
      browser = await launch(executable);
      const chrome = browser;
      const live = core.addExecuting("live-run", { tags: ["demo"], gpusRequested: 1 });
      core.registry.claimGpus(live.runId, [0]);
      for (let i = 0; i < 40; i++) core.addEpisode(live.runId, 10 + i);
      const failed = core.addExecuting("failed-run");
      core.registry.apply(failed.runId, { type: "failed", reason: "exit_code_1" }, {
        hint: "Look at the log.",
        stderrTail: ["Traceback", XSS],
      });
      const hostile = core.addExecuting(XSS, { tags: [XSS], configJson: JSON.stringify({ [XSS]: XSS }) });
      core.addEpisode(hostile.runId, 5, () => JSON.stringify({ ansi: XSS }));
      await Deno.writeTextFile(
        core.logFile(hostile, "stdout"),
        `${XSS}\n\x1b[31mred\x1b[0m\n{"type":"step","reward":1}\n`,
      );

      await t.step("the table of runs moves while a run runs", async () => {
        const { page, errors, close } = await openPage(chrome);
        await page.goto(base);
        const row = page.locator("tr", { hasText: "live-run" });
        await row.waitFor();
        await page.locator(".slot.used").waitFor();
        const steps = async () => (await row.locator("td").nth(7).textContent()) ?? "";
        const before = await steps();
        assert.match(before, /\d/);
        core.addEpisode(live.runId, 100);
        await until(async () => await steps() !== before, { what: "the steps to move", state: steps });
        core.registry.apply(failed.runId, { type: "retry", reason: "asked for" });
        await page.locator("tr", { hasText: "failed-run" }).locator(".chip[data-state=INIT]").waitFor();
        core.registry.apply(failed.runId, { type: "failed", reason: "exit_code_1" }, {
          stderrTail: ["Traceback", XSS],
        });
        await page.locator("button.chip[data-state=FAULTED]").click();
        await until(async () => await page.locator("td.name").count() === 1, { what: "the filter to apply" });
        assert.match(page.url(), /state=FAULTED/);
        assert.deepEqual(errors, []);
        await close();
      });

      await t.step("an unknown run's page tells how the connection stands; a run's figures are never cut", async () => {
        const { page, close } = await openPage(chrome);
        await page.goto(`${base}/runs/NOSUCH`);
        await page.locator("#connection[data-state=live]").waitFor();
        await page.goto(`${base}/runs/${live.runId}`);
        await page.locator(".facts dd").first().waitFor();
        for (const width of [1280, 1024]) {
          await page.setViewportSize({ width, height: 800 });
          const cut = await page.locator(".facts dd").evaluateAll((all) =>
            all.filter((e) => {
              e.textContent = "12,345,678 of 99,999,999";
              return e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1;
            }).length
          );
          assert.equal(cut, 0, `at ${width}`);
        }
        await close();
      });

      await t.step("a chart draws, moves and zooms; pause, resume and cancel by click", async () => {
        const { page, errors, close } = await openPage(chrome);
        await page.goto(`${base}/runs/${live.runId}`);
        await page.locator("[data-series=episode_reward] canvas").waitFor();
        const before = await until(() => points(page, "episode_reward"), { what: "points in the chart" });
        core.addEpisode(live.runId, 120);
        await until(async () => await points(page, "episode_reward") > before, { what: "the chart to move" });
        const all = await points(page, "episode_reward");
        await page.getByRole("button", { name: "Zoom into the last half of Episode reward" }).click();
        await until(async () => await points(page, "episode_reward") < all, { what: "the zoom to apply" });
        await page.getByRole("button", { name: "Pause", exact: true }).click();
        await page.locator(".run-title .chip[data-state=PAUSED]").waitFor();
        await page.getByRole("button", { name: "Resume" }).click();
        await page.locator(".run-title .chip[data-state=EXECUTING]").waitFor();
        await page.getByRole("button", { name: "Cancel", exact: true }).click();
        await page.getByRole("button", { name: "Cancel it" }).click();
        await page.locator(".run-title .chip[data-state=CANCELLED]").waitFor();
        assert.equal(core.registry.require(live.runId).state, "CANCELLED");
        assert.deepEqual(errors, []);
        await close();
      });

      await t.step("what a worker says stays text, in every view", async () => {
        const { page, errors, close } = await openPage(chrome);
        await page.goto(base);
        await page.getByRole("link", { name: XSS, exact: true }).waitFor();
        await page.goto(`${base}/runs/${hostile.runId}`);
        assert.equal(await page.locator("h1").textContent(), XSS);
        await page.getByRole("tab", { name: "Logs" }).click();
        const lines = page.locator(".log-lines > div");
        await lines.nth(1).waitFor();
        assert.deepEqual(await lines.allTextContents(), [XSS, "red"]);
        await page.locator(".log-lines .fg1").waitFor();
        await page.getByRole("tab", { name: "Config" }).click();
        await page.locator("#panel-config pre").filter({ hasText: "globalThis.broken" }).waitFor();
        await page.getByRole("tab", { name: "Frames" }).click();
        await until(async () => await page.locator(".frame-text").textContent() === XSS, { what: "the frame's text" });
        await page.getByRole("tab", { name: "Steps" }).click();
        await page.locator("#panel-steps tbody tr").nth(4).waitFor();
        await page.goto(`${base}/runs/${failed.runId}`);
        await page.locator(".failure pre").filter({ hasText: "globalThis.broken" }).waitFor();
        await page.goto(`${base}/compare?runs=${hostile.runId},${failed.runId}`);
        await page.locator("[data-series=episode_reward] canvas").waitFor();
        assert.equal(await page.evaluate(() => "broken" in globalThis), false);
        assert.equal(await page.locator("main script, main img").count(), 0);
        assert.deepEqual(errors, []);
        await close();
      });

      await t.step("accessible: no violations of WCAG AA in light, dark and on a phone", async () => {
        for (const look of [{}, { dark: true }, { width: 390, height: 844 }]) {
          const { page, close } = await openPage(chrome, look);
          await page.goto(base);
          await page.locator("td.name").nth(2).waitFor();
          await page.locator("td.check input").first().check();
          assert.deepEqual(await violations(page), [], `runs ${JSON.stringify(look)}`);
          await page.goto(`${base}/runs/${failed.runId}`);
          await page.locator(".failure pre").waitFor();
          assert.deepEqual(await violations(page), [], `a failed run ${JSON.stringify(look)}`);
          await page.goto(`${base}/runs/${hostile.runId}`);
          const tabs = "dark" in look || "width" in look
            ? ["Overview", "Logs"]
            : ["Overview", "Steps", "Episodes", "Frames", "Logs", "Config", "Events", "Artifacts"];
          for (const tab of tabs) {
            await page.getByRole("tab", { name: tab }).click();
            await page.locator(`#panel-${tab.toLowerCase()} > *`).first().waitFor({ state: "attached" });
            assert.deepEqual(await violations(page), [], `${tab} ${JSON.stringify(look)}`);
          }
          await close();
        }
      });

      await t.step("the daemon goes away and comes back: said, and nothing is missed", async () => {
        const { page, errors, close } = await openPage(chrome);
        await page.goto(base);
        await page.locator("#connection[data-state=live]").waitFor();
        await server?.stop();
        server = undefined;
        await page.getByText("Daemon unreachable, retrying").waitFor();
        core.addExecuting("came-meanwhile");
        server = await startPage(core, { http: address, log, tickMs: 100 });
        await page.locator("#connection[data-state=live]").waitFor();
        await page.locator("tr", { hasText: "came-meanwhile" }).waitFor();
        // The token of the earlier process is replaced without a reload.
        await page.getByRole("link", { name: "came-meanwhile" }).click();
        await page.getByRole("button", { name: "Pause", exact: true }).click();
        await page.locator(".run-title .chip[data-state=PAUSED]").waitFor();
        assert.deepEqual(errors, []);
        await close();
      });

      await t.step("ten thousand runs: few rows in the document, filter and sort at once", async () => {
        for (let i = 0; i < 10_000; i++) core.add(`many-${i}`);
        const { page, errors, close } = await openPage(chrome);
        await page.goto(base);
        await page.getByText(/^10,0\d\d runs$/).waitFor();
        assert.ok(await page.locator("table.runs tbody tr").count() < 120);
        await page.getByRole("searchbox", { name: "Filter by name or id" }).fill("many-9999");
        await page.getByRole("link", { name: "many-9999", exact: true }).waitFor();
        await page.getByRole("searchbox", { name: "Filter by name or id" }).fill("many-999");
        await page.getByText(/^11 of 10,0\d\d runs$/).waitFor();
        await page.getByRole("checkbox", { name: "Select all shown runs" }).check();
        await page.getByText("11 selected").waitFor();
        await page.locator(".selection button[data-action=cancel]").click();
        await page.getByRole("button", { name: "Cancel it" }).click();
        await page.getByText("Cancel: 11 runs.").waitFor();
        assert.equal(
          core.registry.list({ states: ["CANCELLED"], nameContains: "many-999" }, { limit: 100 }).runs.length,
          11,
        );
        await page.getByRole("searchbox", { name: "Filter by name or id" }).fill("many-");
        await page.getByRole("button", { name: "Name", exact: true }).click();
        await page.getByRole("link", { name: "many-0", exact: true }).waitFor();
        await page.getByRole("region", { name: "Table of runs" }).focus();
        await page.keyboard.press("End");
        await page.getByRole("link", { name: "many-9999", exact: true }).waitFor();
        assert.deepEqual(errors, []);
        await close();
      });
    } finally {
      await browser?.close();
      await server?.stop();
      core.close();
      await Deno.remove(directory, { recursive: true });
    }
  });
}

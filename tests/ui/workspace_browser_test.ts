/** The workspace: runs and charts beside each other, with 1 to 1000 runs, on every width. */
import assert from "node:assert/strict";
import { FIRST_ROWS } from "../../src/ui/client/runs/eyes.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { inBrowser, liveRun, points } from "./in_browser.ts";
import { addCurves } from "./many_runs.ts";

const legend = "[data-series=episode_reward] .legend > button";

inBrowser(
  "runs and charts share a place: an eye hides a run, and the address knows",
  async ({ core, page, base }) => {
    const runs = ["a2c", "ppo", "sac"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) core.addEpisodes(runId, 60, 3);
    await page.goto(base);
    await until(async () => await page.locator(legend).count() === 3, {
      what: "a line of each run",
    });
    const eye = page.getByRole("button", { name: "Draw ppo" });
    const color = await eye.evaluate((e) => getComputedStyle(e).color);
    const mark = page.locator(legend, { hasText: "ppo" }).locator(".mark");
    assert.equal(await mark.evaluate((e) => getComputedStyle(e).color), color);
    await eye.click();
    await until(async () => await page.locator(legend).count() === 2, { what: "the line to go" });
    assert.match(page.url(), new RegExp(`off=${runs[1]!.runId}`));
    await page.getByText("2 drawn").waitFor();
    await page.reload();
    await until(async () => await page.locator(legend).count() === 2, {
      what: "the same after a reload",
    });
    await eye.click();
    await until(async () => await page.locator(legend).count() === 3, { what: "the line again" });
    assert.equal(
      await eye.evaluate((e) => getComputedStyle(e).color),
      color,
      "a run keeps its colour",
    );
    await page.goto(`${base}/runs/${runs[1]!.runId}`);
    await until(() => points(page, "episode_reward"), { what: "the run's own page" });
    const line = await page.evaluate(() => JSON.parse(localStorage.getItem("mosaic-colors")!));
    assert.ok(line[runs[1]!.runId], "kept for the other views");
  },
);

inBrowser(
  "one filter for list and charts; a comparison's old address is the same place",
  async ({ core, page, base }) => {
    const runs = ["a2c", "ppo", "sac"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) core.addEpisodes(runId, 60, 3);
    await page.goto(`${base}/compare?runs=${runs.slice(0, 2).map((r) => r.runId).join()}`);
    await until(async () => await page.locator(legend).count() === 2, {
      what: "the lines of the chosen runs",
    });
    assert.equal(new URL(page.url()).pathname, "/");
    assert.equal(await page.locator("td.name").count(), 2);
    await page.getByRole("button", { name: /^2 chosen runs/ }).click();
    await until(async () => await page.locator("td.name").count() === 3, { what: "all runs" });
    await page.getByLabel("Filter by name, id or conditions").fill("name=sac");
    await until(async () => (await page.locator(legend).count()) <= 1, {
      what: "the charts to follow the filter",
    });
    assert.equal(await page.locator("td.name").count(), 1);
  },
);

inBrowser("the filter completes names of parameters and metrics", async ({ core, page, base }) => {
  const text = (
    value: number,
  ) => [{ name: "learning_rate", source: "config" as const, value: String(value) }];
  for (const rate of [1, 2]) core.begun(core.add(`rate-${rate}`, {}, text(rate)).runId);
  await page.goto(base);
  const box = page.getByLabel("Filter by name, id or conditions");
  await page.locator("td.name").nth(1).waitFor();
  await box.pressSequentially("lear");
  await page.getByRole("option", { name: "learning_rate", exact: true }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("1");
  assert.equal(await box.inputValue(), "learning_rate>1");
  await until(async () => (await page.locator("td.name").allTextContents()).length === 1, {
    what: "the condition",
  });
});

inBrowser(
  "the border between list and charts moves by keys, and stays",
  async ({ core, page, base }) => {
    liveRun(core);
    await page.goto(base);
    const border = page.getByRole("separator", { name: "Width of the list" });
    await border.focus();
    const width = () => page.locator(".runs-pane").evaluate((e) => e.clientWidth);
    const before = await width();
    await page.keyboard.press("ArrowRight");
    await until(async () => await width() > before, { what: "a wider list" });
    const wider = await width();
    await page.reload();
    await border.waitFor();
    assert.equal(await width(), wider);
  },
);

inBrowser(
  "a column is made wider by its edge or by keys, and stays so in the address",
  async ({ core, page, base }) => {
    liveRun(core);
    await page.goto(`${base}/?pane=list`);
    const head = page.locator("th[data-column=reward]");
    await head.waitFor();
    const width = () => head.evaluate((e) => (e as HTMLElement).offsetWidth);
    const before = await width();
    const box = (await head.locator(".grip").boundingBox())!;
    await page.mouse.move(box.x + 4, box.y + 8);
    await page.mouse.down();
    await page.mouse.move(box.x + 64, box.y + 8);
    await page.mouse.up();
    assert.ok(Math.abs(await width() - before - 60) <= 2, `${before} and 60 more`);
    assert.equal(await head.getAttribute("aria-sort"), null, "the list is not sorted by it");
    await head.getByRole("button").focus();
    await page.keyboard.press("Alt+ArrowLeft");
    const chosen = await width();
    assert.match(decodeURIComponent(page.url()), new RegExp(`width=reward:${chosen}`));
    await page.reload();
    await until(async () => await width() === chosen, { what: "the width of before" });
    await head.locator(".grip").dblclick();
    await until(async () => await width() === before, { what: "the usual width" });
  },
);

inBrowser(
  "a chart is hidden and shown again, by Undo, by its name, or by a button",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("hides");
    core.addEpisodes(runId, 60, 5);
    await page.goto(`${base}/runs/${runId}`);
    const chart = page.locator("[data-series=episode_length]");
    const hide = async () => {
      await chart.locator("canvas").first().waitFor();
      await chart.getByRole("button", { name: /^More of / }).click();
      await chart.getByRole("button", { name: "Hide Episode length" }).click();
      await chart.waitFor({ state: "detached" });
      assert.match(page.url(), /without=episode_length/);
    };
    await hide();
    await page.getByRole("button", { name: "Undo" }).click();
    await hide();
    await page.reload();
    await until(() => points(page, "episode_reward"), { what: "the other chart" });
    assert.equal(await chart.count(), 0);
    await page.getByRole("button", { name: "Show 1 hidden" }).click();
    await chart.locator("canvas").first().waitFor();
    assert.ok(!page.url().includes("without="));
  },
);

for (const count of [1, 20, 130, ...(LONG_TESTS ? [1000] : [])]) {
  inBrowser(
    `${count} runs: nothing moves while they load, on each width, and axe finds nothing`,
    async (scene) => {
      const { core, page, base } = scene;
      addCurves(core, count);
      await page.addInitScript(() => {
        const shifts: number[] = [];
        Object.assign(globalThis, { shifts });
        new PerformanceObserver((list) => {
          for (const e of list.getEntries() as (PerformanceEntry & { value: number })[]) {
            shifts.push(e.value);
          }
        }).observe({ type: "layout-shift", buffered: true });
      });
      for (const [width, height] of [[1440, 900], [390, 844], [820, 1180], [3840, 2160]] as const) {
        await page.setViewportSize({ width, height });
        await page.goto(base);
        const one = count === 1 ? "1 run" : `${count.toLocaleString("en")} runs`;
        await page.getByText(one, { exact: true }).waitFor();
        if (width > 900) {
          await page.getByText(`${Math.min(FIRST_ROWS, count)} drawn`).waitFor();
          await page.locator("[data-series=episode_reward] canvas").waitFor();
        }
        const moved = await page.evaluate(() =>
          (globalThis as unknown as { shifts: number[] }).shifts.reduce((a, b) => a + b, 0)
        );
        assert.ok(moved <= 0.05, `at ${width} px the layout shifted by ${moved.toFixed(3)}`);
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          `${width} px suffice`,
        );
        if (width <= 1440) assert.deepEqual(await violations(page), [], `at ${width}`);
      }
    },
  );
}

inBrowser(
  "a run's rail: reward and progress in large, the time left, its command on request",
  async (scene) => {
    const { core, page, base } = scene;
    const run = liveRun(core);
    core.registry.update(run.runId, {
      configJson: JSON.stringify({
        ...JSON.parse(run.configJson),
        schedule: { max_steps: 11_800 },
      }),
    });
    await page.goto(`${base}/runs/${run.runId}`);
    const rail = page.getByRole("complementary", { name: "The run" });
    await rail.getByText("Reward, mean of the last 100 episodes").waitFor();
    await rail.locator(".large", { hasText: "29.5" }).waitFor();
    await rail.locator(".large", { hasText: /^10 %$/ }).waitFor();
    await rail.getByText(/k of 1[\d.]+k steps/).waitFor();
    // Slots are a fact that says something; an only attempt is none.
    await rail.locator(".facts dt", { hasText: "GPUs" }).waitFor();
    assert.equal(await rail.locator(".facts dt", { hasText: "Attempt" }).count(), 0);
    await rail.getByText("Command and code").click();
    await rail.getByText("/bin/true").waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const [chart, details] = await Promise.all(
      [page.locator("[data-series=episode_reward]"), rail.getByRole("heading", { name: "Details" })]
        .map(async (one) => (await one.boundingBox())!.y),
    );
    assert.ok(chart! < details!, "on a phone the charts come before the details");
    assert.deepEqual(await violations(page), []);
  },
);

inBrowser(
  "a computed chart is drawn, in the address, and removed",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("computed");
    core.addEpisodes(runId, 60, 5);
    await page.goto(`${base}/runs/${runId}`);
    await until(() => points(page, "episode_reward"), { what: "the charts" });
    await page.getByRole("button", { name: "Compute …" }).click();
    const field = page.getByRole("dialog").getByLabel("Expression");
    await field.fill("episode_reward / nothing");
    await page.keyboard.press("Enter");
    await page.getByText('"episode_reward / nothing" is no expression of these charts').waitFor();
    await page.getByRole("button", { name: "Compute …" }).click();
    await field.fill("episode_reward / episode_length");
    await page.keyboard.press("Enter");
    const chart = page.locator("[data-series='episode_reward / episode_length']");
    await chart.locator("canvas").first().waitFor();
    // Each step has a reward of 1.
    await chart.locator(".readout", { hasText: /^1$/ }).waitFor();
    await page.reload();
    await chart.locator("canvas").first().waitFor();
    await chart.getByRole("button", { name: /^More of / }).click();
    await chart.getByRole("button", { name: /^Remove / }).click();
    await chart.waitFor({ state: "detached" });
    assert.ok(!page.url().includes("expr="));
  },
);

/** The page in a real browser, over an engine without processes: one browser process for all tests, an engine and a page for each. */
import assert from "node:assert/strict";
import type { Browser, BrowserContext, Locator, Page } from "npm:playwright-core@1.65.1";
import type { RunRow } from "../../src/registry/row_types.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { chromiumPath, forget, launch, ONE_PROCESS, openContext, pageIn } from "./chromium.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { type Served, servePage } from "./served_page.ts";

const XSS = `<script>globalThis.broken=1</script><img src=x onerror="globalThis.broken=1">"'\`{{TOKEN}}`;
const executable = chromiumPath();

const points = (page: Page, series: string) =>
  page.locator(`[data-series=${series}] .plot`).evaluate((e) => Number((e as HTMLElement).dataset.points ?? 0));

/** One of the controls behind a chart's "More". */
async function fromMenu(chart: Locator, name: string): Promise<void> {
  await chart.getByRole("button", { name: /^More of / }).click();
  await chart.getByRole("button", { name }).click();
}

interface Scene {
  core: PlayedEngine;
  page: Page;
  base: string;
  /** Stops serving, and begins again at the same address. */
  stop(): Promise<void>;
  start(): void;
}

let browser: Browser;
let context: BrowserContext;
if (executable === undefined) {
  Deno.test("page in a browser", () => console.log("SKIPPED: no Chromium on this machine"));
} else {
  Deno.test.beforeAll(async () => {
    browser = await launch(executable, ONE_PROCESS);
    context = await openContext(browser);
    // Keeps the process while no test has a page.
    await context.newPage();
  });
  Deno.test.afterAll(() => browser.close());
}

/** A test with a page that is open in the browser; it may not log an error. */
function inBrowser(name: string, work: (scene: Scene) => Promise<void>): void {
  if (executable === undefined) return;
  // The browser's connection is older than the test and outlives it.
  Deno.test({ name: `page: ${name}`, sanitizeOps: false, sanitizeResources: false }, async () => {
    await using core = new PlayedEngine();
    let server: Served | undefined = servePage(core);
    const { address } = server;
    const { page, errors } = await pageIn(context);
    const stop = async () => {
      await server?.stop();
      server = undefined;
    };
    try {
      await forget(page, address);
      await work({
        core,
        page,
        base: `http://${address}`,
        stop,
        start: () => void (server = servePage(core, Number(address.split(":")[1]))),
      });
      assert.deepEqual(errors, []);
    } finally {
      await page.close();
      await stop();
    }
  });
}

function liveRun(core: PlayedEngine): RunRow {
  const live = core.addExecuting("live-run", { tags: ["demo"], gpusRequested: 1 });
  core.registry.claimGpus(live.runId, [0]);
  for (let i = 0; i < 40; i++) core.addEpisode(live.runId, 10 + i);
  return live;
}

const fail = (core: PlayedEngine, { runId }: RunRow) => core.ended(runId, { code: 1, stderrTail: ["Traceback", XSS] });

/** A run whose worker says what would harm a page that takes it for markup. */
async function hostileRun(core: PlayedEngine): Promise<RunRow> {
  const hostile = core.addExecuting(XSS, { tags: [XSS] });
  core.registry.update(hostile.runId, { configJson: JSON.stringify({ [XSS]: XSS }) });
  core.addEpisode(hostile.runId, 5, () => JSON.stringify({ ansi: XSS }));
  await Deno.writeTextFile(core.logFile(hostile, "stdout"), `${XSS}\n\x1b[31mred\x1b[0m\n{"type":"step","reward":1}\n`);
  return hostile;
}

inBrowser("the table of runs moves while a run runs", async ({ core, page, base }) => {
  const live = liveRun(core);
  const failed = fail(core, core.addExecuting("failed-run"));
  await page.goto(base);
  const row = page.locator("tr", { hasText: "live-run" });
  await row.waitFor();
  await page.locator(".slot.used").waitFor();
  const steps = async () => (await row.locator("td").nth(7).textContent()) ?? "";
  const before = await steps();
  assert.match(before, /\d/);
  core.addEpisode(live.runId, 100);
  await until(async () => await steps() !== before, { what: "the steps to move", state: steps });
  core.retry(failed.runId);
  await page.locator("tr", { hasText: "failed-run" }).locator(".chip[data-state=INIT]").waitFor();
  fail(core, core.begun(failed.runId));
  await page.locator("button.chip[data-state=FAULTED]").click();
  await until(async () => await page.locator("td.name").count() === 1, { what: "the filter to apply" });
  assert.match(page.url(), /state=FAULTED/);
});

inBrowser(
  "an unknown run's page tells how the connection stands; a run's figures are never cut",
  async ({ core, page, base }) => {
    const live = liveRun(core);
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
  },
);

inBrowser("what is redrawn each second keeps focus, a held press and selected text", async ({ core, page, base }) => {
  const live = liveRun(core);
  await page.goto(base);
  const slot = page.locator(".slot.used");
  await slot.focus();
  const telemetry = page.locator(".host .meter").last();
  const figures = () => telemetry.textContent();
  const before = await figures();
  const box = (await slot.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  // Ticks come, and with them other figures.
  await until(async () => (core.addEpisode(live.runId, 50), await figures() !== before), {
    what: "the strip to change",
  });
  assert.ok(await slot.evaluate((e) => document.activeElement === e), "the slot still has the focus");
  await page.mouse.up();
  await page.locator(".run-title h1").waitFor();

  const last = page.locator(".lifelist li").last();
  await last.locator(".chip").evaluate((e) => getSelection()!.selectAllChildren(e));
  const took = await last.locator(".took").textContent();
  await until(async () => await last.locator(".took").textContent() !== took, { what: "the time to go on" });
  assert.equal(await page.evaluate(() => getSelection()!.toString()), "EXECUTING");
});

inBrowser("a chart draws, moves and zooms; pause, resume and cancel by click", async ({ core, page, base }) => {
  const live = liveRun(core);
  await page.goto(`${base}/runs/${live.runId}`);
  await page.locator("[data-series=episode_reward] canvas").waitFor();
  const before = await until(() => points(page, "episode_reward"), { what: "points in the chart" });
  core.addEpisode(live.runId, 120);
  await until(async () => await points(page, "episode_reward") > before, { what: "the chart to move" });
  const all = await points(page, "episode_reward");
  await fromMenu(page.locator("[data-series=episode_reward]"), "Zoom into the last half");
  await until(async () => await points(page, "episode_reward") < all, { what: "the zoom to apply" });
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.locator(".run-title .chip[data-state=PAUSED]").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator(".run-title .chip[data-state=EXECUTING]").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.locator(".run-title .chip[data-state=CANCELLED]").waitFor();
  assert.equal(core.registry.require(live.runId).state, "CANCELLED");
});

inBrowser("figures of metrics are columns: sorted, filtered, in the address", async ({ core, page, base }) => {
  for (const length of [5, 9, 7]) core.addEpisode(core.addExecuting(`long-${length}`).runId, length);
  core.addExecuting("said-nothing");
  await page.goto(base);
  await page.getByLabel("Add a column").fill("last:episode_length");
  await page.locator("th[data-column='last:episode_length']").waitFor();
  const order = () => page.locator("td.name a").allTextContents();
  const sortBy = page.getByRole("button", { name: "episode_length", exact: true });
  await sortBy.click();
  const sorted = ["long-9", "long-7", "long-5", "said-nothing"];
  await until(async () => JSON.stringify(await order()) === JSON.stringify(sorted), {
    what: "the order",
    state: order,
  });
  await page.getByLabel("Conditions on columns").fill("episode_length>=7");
  await until(async () => (await order()).length === 2, { what: "the condition to apply", state: order });
  await page.reload();
  await until(async () => (await order()).join() === "long-9,long-7", { what: "the same view", state: order });
  await page.getByLabel("Conditions on columns").fill("loss>1");
  await page.getByText('"loss>1" is no condition on a column here').waitFor();
  assert.deepEqual(await violations(page), []);
});

inBrowser("seeds as one curve: groups fold, tell their runs, and are in the address", async ({ core, page, base }) => {
  const runs = ["ppo-seed1", "ppo-seed2", "dqn-seed1", ...Array.from({ length: 12 }, (_, i) => `sac-seed${i}`)]
    .map((name) => core.addExecuting(name));
  for (const [i, { runId }] of runs.entries()) core.addEpisodes(runId, 10 + i, 5);
  await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}`);
  const chart = page.locator("[data-series=episode_reward]");
  await until(async () => await chart.locator(".legend > span").count() === runs.length, {
    what: "a line of each run",
  });
  await page.getByLabel("Group by").selectOption("name");
  await chart.locator(".legend", { hasText: "sac (12 runs)" }).waitFor();
  assert.equal(await chart.locator(".legend > span").count(), 3);
  await page.getByLabel("Band").selectOption("minmax");
  assert.match(page.url(), /[?&]group=name/);
  assert.match(page.url(), /[?&]band=minmax/);
  await chart.scrollIntoViewIfNeeded();
  const box = (await chart.locator(".u-over").boundingBox())!;
  await page.mouse.move(box.x + 5, box.y + 20);
  await chart.locator(".value", { hasText: "12 runs" }).waitFor();
  // The shorter runs of the group are over before its last episode.
  await page.mouse.move(box.x + box.width - 2, box.y + 20);
  await chart.locator(".value", { hasText: "1 run" }).waitFor();
  const group = page.getByRole("button", { name: "ppo", exact: true });
  assert.equal(await group.getAttribute("aria-expanded"), "false");
  await group.click();
  await page.locator("tbody").getByRole("link", { name: "ppo-seed2" }).waitFor();
  await page.reload();
  await chart.locator(".legend", { hasText: "sac (12 runs)" }).waitFor();
  assert.deepEqual(await violations(page), []);
});

inBrowser(
  "a crowd of runs: thin lines with a name where one points; zoom redraws at once; all of it by its address",
  async ({ core, page, base }) => {
    const runs = Array.from({ length: 45 }, (_, i) => core.addExecuting(`ppo-lr${i % 3}-seed${i}`));
    for (const [i, { runId }] of runs.entries()) core.addEpisodes(runId, 40, 1 + i);
    const address = `${base}/compare?runs=${[...runs.map((r) => r.runId), "01NOSUCH"].join()}`;
    const asked: string[] = [];
    page.on("request", (r) => /\/api\/(series|compared|runs\?|runs\/[^/]+$)/.test(r.url()) && asked.push(r.url()));
    // Without ticks nothing is read again while requests are counted.
    await page.route("**/api/live?*", (route) => route.abort());
    await page.goto(`${address}&smoothing=0`);
    const chart = page.locator("[data-series=episode_reward]");
    await chart.getByText("45 runs, 40 places each at most").waitFor();
    await page.getByText("1 run no longer there.").waitFor();
    await page.getByRole("button", { name: "The first 6 of 45 rows: show all" }).waitFor();
    // However many runs there are.
    assert.ok(asked.length < 12, asked.join("\n"));
    const of = (path: string) => asked.filter((url) => url.endsWith(path)).length;
    // The first script asks; the program takes the answers, and asks for names itself only because a run is gone.
    assert.deepEqual([of("/api/compared/first"), of("/api/compared"), of("/api/series/names")], [1, 0, 1]);
    asked.length = 0;
    await page.goto(`${address.slice(0, address.lastIndexOf(","))}&smoothing=0`);
    for (const name of ["episode_reward", "episode_length", "reward"]) {
      await page.locator(`[data-series=${name}] canvas`).first().waitFor();
    }
    // Of all runs there, the points of the first charts as well: once, before the program runs.
    assert.deepEqual([of("/api/compared/first"), asked.length], [1, 2], asked.join("\n"));
    // An answer that is cut short costs nothing but time: the program asks for what has not come.
    await page.route("**/api/compared/first", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.body()).subarray(0, -100) });
    });
    asked.length = 0;
    await page.reload();
    for (const name of ["episode_reward", "episode_length", "reward"]) {
      await page.locator(`[data-series=${name}] canvas`).first().waitFor();
    }
    assert.deepEqual([of("/api/compared"), of("/api/series/names"), of("/api/series")], [0, 0, 1], asked.join("\n"));
    await page.route("**/api/compared/first", (route) => route.abort());
    asked.length = 0;
    await page.reload();
    await page.locator("[data-series=reward] canvas").first().waitFor();
    assert.deepEqual([of("/api/compared"), of("/api/series/names"), of("/api/series")], [1, 1, 3], asked.join("\n"));
    await page.unroute("**/api/compared/first");
    await page.unroute("**/api/live?*");
    await page.goto(`${address}&smoothing=0`);
    await chart.getByText("45 runs, 40 places each at most").waitFor();
    const over = chart.locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 2);
    await page.mouse.move(box.x + box.width / 2, box.y + 8);
    await chart.locator(".legend", { hasText: /^ppo-lr\d-seed4\d \d+ at episode (19|2\d)$/ }).waitFor();
    // The other chart over episodes names the same run.
    const named = (await chart.locator(".legend").textContent())!.split(" ")[0]!;
    await page.locator("[data-series=episode_length] .legend", { hasText: named }).waitFor();
    await fromMenu(chart, "Table of Episode reward");
    assert.equal(await chart.locator(".figures tbody tr").count(), 45);
    await fromMenu(chart, "Table of Episode reward");
    await fromMenu(chart, "Zoom into the last half");
    await until(async () => await chart.getAttribute("aria-busy") === null, { what: "the points of the zoom" });
    const view = () => chart.locator(".plot").getAttribute("data-view");
    const zoomed = await view();
    assert.match(zoomed!, /^2\d,40$/);
    await fromMenu(chart, "Keep Episode reward on top");
    await page.getByLabel("Group by").selectOption("name");
    await page.getByRole("button", { name: "ppo-lr1", exact: true }).click();
    await page.locator("details.section summary", { hasText: "Pinned" }).waitFor();
    const link = page.url();
    for (const part of ["zoom=episode_reward", "pin=episode_reward", "group=name", "open=ppo-lr1"]) {
      assert.ok(link.includes(part), `${part} is missing in ${link.slice(-200)}`);
    }
    assert.deepEqual(await violations(page), []);
    await page.locator("details.section summary", { hasText: "Pinned" }).click();
    await until(() => page.url().includes("fold=Pinned"), { what: "the fold in the address" });
    const all = page.url();
    // Another browser has none of it but the link.
    await page.evaluate(() => localStorage.clear());
    await page.goto(base);
    await page.goto(all);
    await page.locator("details.section:not([open]) summary", { hasText: "Pinned" }).waitFor();
    await page.locator("tbody").getByRole("link", { name: "ppo-lr1-seed1", exact: true }).waitFor();
    // One's own pins are not on top of what a link shows, and come with an address that says nothing of charts.
    await page.evaluate(() => localStorage.setItem("mosaic-pinned", '["reward"]'));
    await page.goto(`${address}&smoothing=0`);
    await chart.locator("canvas").first().waitFor();
    assert.equal(await page.locator("details.section").count(), 0);
    await page.goto(address);
    await page.locator("details.section summary", { hasText: "Pinned" }).waitFor();
    await until(() => page.url().includes("pin=reward"), { what: "what one sees to be in the address" });
  },
);

inBrowser("charts by keyboard: cursor, zoom, and the table behind; ? tells the keys", async ({ core, page, base }) => {
  const live = liveRun(core);
  await page.goto(`${base}/runs/${live.runId}`);
  const chart = page.locator("[data-series=episode_reward]");
  await until(async () => await points(page, "episode_reward") === 40, { what: "all points" });
  await chart.getByRole("img").focus();
  await page.keyboard.press("Home");
  await chart.locator(".readout", { hasText: "at episode 1" }).waitFor();
  await page.keyboard.press("Shift+ArrowRight");
  await chart.locator(".readout", { hasText: "at episode 11" }).waitFor();
  await page.keyboard.press("b");
  const rows = chart.getByRole("region", { name: "Table of Episode reward" }).locator("tbody tr");
  assert.equal(await rows.count(), 40);
  assert.match(await rows.nth(10).textContent() ?? "", /^11/);
  await page.keyboard.press("+");
  await until(async () => await points(page, "episode_reward") < 25, { what: "the zoom" });
  await until(async () => await rows.count() < 25, { what: "the table to follow" });
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("-");
  await until(async () => await points(page, "episode_reward") === 40, { what: "all points again" });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.locator("table.runs").waitFor();
});

inBrowser(
  "name, tags and notes are edited; Markdown is elements, HTML stays text; a view is kept",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("old-name", { tags: ["first"] });
    await page.goto(`${base}/runs/${runId}?smoothing=0.3`);
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    await page.getByRole("textbox", { name: "Name" }).fill("new-name");
    await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    await page.getByRole("heading", { name: "new-name" }).waitFor();
    await page.getByLabel("Add a tag").fill("second");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Remove the tag second" }).waitFor();
    await page.getByRole("button", { name: "Remove the tag first" }).click();
    await page.getByRole("button", { name: "Remove the tag first" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Add notes" }).click();
    await page.getByLabel("Notes (Markdown)").fill(
      `## Why\n\n- **lower** rate\n- [bad](javascript:alert(1)) [good](https://example.org)\n\n${XSS}`,
    );
    await page.getByRole("button", { name: "Save", exact: true }).click();
    const notes = page.locator(".markdown");
    await notes.getByRole("heading", { name: "Why" }).waitFor();
    assert.deepEqual(await notes.locator("strong, a").allTextContents(), ["lower", "good"]);
    assert.equal(await notes.locator("script, img").count(), 0);
    assert.equal(await page.evaluate(() => "broken" in globalThis), false);
    const { name, tags, notes: text } = core.registry.require(runId);
    assert.deepEqual([name, tags, text.startsWith("## Why")], ["new-name", ["second"], true]);
    // More than the parser can take: the page stays, with the text.
    await page.getByRole("button", { name: "Edit notes" }).click();
    await page.getByLabel("Notes (Markdown)").fill(">".repeat(20_000));
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator(".markdown > pre").waitFor();
    await page.getByText("Views", { exact: true }).click();
    await page.getByRole("button", { name: "Save this view" }).click();
    await page.getByRole("textbox", { name: "Name" }).fill("my view");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await page.goto(base);
    await page.getByText("Views", { exact: true }).click();
    assert.deepEqual(await violations(page), []);
    await page.getByRole("link", { name: "my view" }).click();
    await page.getByRole("heading", { name: "new-name" }).waitFor();
    assert.match(page.url(), /smoothing=0.3/);
  },
);

inBrowser("what a later attempt overwrote is faded, and hidden on request", async ({ core, page, base }) => {
  const { runId } = core.addExecuting("rewound");
  for (let i = 0; i < 40; i++) core.addEpisode(runId, 10, undefined, 1_000_000 + i * 1000);
  core.ended(runId, { code: 1 });
  core.retry(runId);
  core.telemetry.beginAttempt(runId, 2, 1_000_000 + 29_500);
  core.begun(runId);
  for (let i = 0; i < 5; i++) core.addEpisode(runId, 10);
  await page.goto(`${base}/runs/${runId}`);
  const chart = page.locator("[data-series=episode_reward]");
  await chart.locator(".legend :has(> .dashed)", { hasText: "attempt 1, overwritten" }).waitFor();
  await until(async () => await points(page, "episode_reward") === 45, { what: "all attempts" });
  const box = (await chart.locator(".u-over").boundingBox())!;
  await page.mouse.move(box.x + box.width - 1, box.y + 20);
  await chart.locator(".readout", { hasText: "at episode 40" }).waitFor();
  await page.getByRole("checkbox", { name: "Overwritten" }).uncheck();
  await until(async () => await points(page, "episode_reward") === 35, { what: "what is left" });
  await page.mouse.move(box.x + box.width - 1, box.y + 25);
  await chart.locator(".readout", { hasText: "at episode 35" }).waitFor();
  assert.match(page.url(), /overwritten=0/);
  await page.locator(".facts dd", { hasText: "10 overwritten" }).waitFor();
  await page.locator(".facts dd", { hasText: "all attempts" }).waitFor();
  await page.goto(base);
  const steps = page.getByText("450, 100 overwritten");
  await steps.waitFor();
  // It is cut where the column is too narrow.
  assert.equal(await steps.getAttribute("title"), "450, 100 overwritten");
});

inBrowser(
  "points without a value are holes, counted; the last value is told as it is",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("holes");
    for (let i = 0; i < 90; i++) {
      core.addEpisode(runId, 1, undefined, undefined, `{"loss": ${i < 30 || i > 49 ? i : NaN}}`);
    }
    await page.goto(`${base}/runs/${runId}?smoothing=0.9`);
    const chart = page.locator("[data-series=loss]");
    await chart.getByText("20 points NaN or infinite").waitFor();
    assert.equal(await chart.locator(".readout").textContent(), "89");
    // The line's colour is nowhere in the middle of the hole, and is on both sides of it.
    const drawn = await chart.locator("canvas").first().evaluate((canvas: HTMLCanvasElement) => {
      const over = canvas.parentElement!.querySelector(".u-over") as HTMLElement;
      const scale = canvas.width / canvas.clientWidth;
      const blue = (place: number) => {
        const left = (over.offsetLeft + over.clientWidth * place) * scale;
        const { data } = canvas.getContext("2d")!.getImageData(left - 2, 0, 4, canvas.height);
        return data.some((_, i) => i % 4 === 0 && data[i + 3]! > 200 && data[i + 2]! - data[i]! > 100);
      };
      return [0.2, 0.45, 0.8].map(blue);
    });
    assert.deepEqual(drawn, [true, false, true]);
  },
);

inBrowser("the x axis is any metric: of runs, of groups, and by its address", async ({ core, page, base }) => {
  const runs = ["a-seed1", "a-seed2", "b-seed1"].map((name) => core.addExecuting(name));
  for (const { runId } of runs) {
    for (let i = 0; i <= 20; i++) {
      core.addEpisode(runId, 1, undefined, 1_000_000 + i * 1000, JSON.stringify({ tokens: 500 * i, loss: 20 - i }));
    }
  }
  await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}&group=name&smoothing=0`);
  const chart = page.locator("[data-series=loss]");
  await chart.locator("canvas").waitFor();
  await page.getByLabel("X axis").selectOption("metric:tokens");
  const last = async () => {
    await chart.getByRole("img").focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("End");
    await chart.locator(".readout", { hasText: "at tokens 10,000" }).waitFor();
  };
  await last();
  assert.equal(await chart.locator(".value").first().textContent(), "0, 2 runs");
  await page.reload();
  await chart.locator("canvas").waitFor();
  await last();
  assert.match(page.url(), /[?&]x=metric(:|%3A)tokens/);
});

inBrowser("the table has groups that fold; parameters are drawn against results", async ({ core, page, base }) => {
  core.addExecuting(`${"long-".repeat(20)}end-seed1`);
  const runs = ["a-seed1", "a-seed2", "b-seed1"].map((name) => core.addExecuting(name));
  for (const [i, { runId }] of runs.entries()) core.addEpisode(runId, 10 * (i + 1));
  await page.goto(`${base}/?group=name`);
  const group = page.getByRole("button", { name: "a", exact: true });
  await group.waitFor();
  assert.equal(await page.locator("td.name a:visible").count(), 0);
  // A name that is too long gives way to the number of its runs, and is cut at its beginning.
  const long = page.locator("tr.group", { hasText: "long-long" });
  const sight = await long.evaluate((row) => {
    const [button, tags] = ["button", ".tags"].map((of) => row.querySelector<HTMLElement>(of)!);
    const text = document.createTreeWalker(button!, NodeFilter.SHOW_TEXT).nextNode() as Text;
    const end = document.createRange();
    end.setStart(text, text.length - 1);
    end.setEnd(text, text.length);
    const rightOf = (one: Element | Range) => Math.floor(one.getBoundingClientRect().right);
    return {
      end: rightOf(end) <= rightOf(button!),
      number: tags!.clientWidth > 0 && tags!.scrollWidth <= tags!.clientWidth &&
        rightOf(tags!) <= rightOf(row.querySelector("td.name")!),
    };
  });
  assert.deepEqual(sight, { end: true, number: true });
  const cells = page.locator("tr.group", { hasText: "2 runs" });
  await cells.locator(".chip[data-state=EXECUTING]:visible", { hasText: "EXECUTING" }).waitFor();
  core.registry.apply(runs[0]!.runId, { type: "exited_ok" });
  // A group tells of each of its runs.
  await cells.locator(".chip:visible", { hasText: /^1 TERMINATED$/ }).waitFor();
  assert.equal(await cells.locator(".states").getAttribute("title"), "1 EXECUTING, 1 TERMINATED");
  assert.match(await cells.textContent() ?? "", /15 ± 7/);
  assert.deepEqual(await violations(page), []);
  await group.click();
  const members = () => page.locator("td.name a:visible").allTextContents();
  await until(async () => (await members()).length === 2, { what: "its runs" });
  assert.match(page.url(), /[?&]open=a(&|$)/);
  await page.reload();
  await until(async () => (await members()).length === 2, { what: "its runs again" });
  await cells.getByRole("checkbox").check();
  await page.getByText("2 selected").waitFor();
  await page.goto(
    `${base}/compare?runs=${runs.map((r) => r.runId).join()}&px=last:episode_length&py=max:episode_reward`,
  );
  const plot = page.getByRole("region", { name: "Parameters and results", exact: true });
  await plot.getByRole("img", { name: "episode_reward, highest against episode_length: 3 runs" }).waitFor();
  assert.equal(await plot.locator("svg[role=img] circle").count(), 3);
  await page.getByLabel("Kind of plot").selectOption("lines");
  await until(async () => await plot.locator("polyline").count() === 3, { what: "a line of each run" });
  await plot.getByText("Table", { exact: true }).click();
  assert.match(await plot.locator("tbody tr").last().textContent() ?? "", /b-seed1.*30$/);
  assert.deepEqual(await violations(page), []);
});

inBrowser("an alert is told where one looks, and stays on its run and in the list", async ({ core, page, base }) => {
  const [before, now] = ["alerted", "alerts-now"].map((name) => core.addExecuting(name));
  const alert = (run: { runId: string }, then: string) =>
    core.registry.appendEvent(run.runId, "alert", { alert: "loss nan", what: "loss is NaN", then });
  alert(before!, "tell");
  await page.goto(base);
  const marked = (name: string) => page.locator("tr", { hasText: name }).locator(".tag.alert");
  await marked("alerted").waitFor();
  assert.equal(await marked("alerted").getAttribute("title"), "loss is NaN (rule loss nan)");
  assert.equal(await marked("alerts-now").count(), 0);
  alert(now!, "pause");
  await page.locator("#notices", { hasText: "alerts-now: loss is NaN; the run was paused" }).waitFor();
  await marked("alerts-now").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.goto(`${base}/runs/${now!.runId}`);
  const told = page.getByRole("region", { name: "Alerts" });
  await told.getByText("loss is NaN; the run was paused (rule loss nan)").waitFor();
  alert(now!, "cancel");
  await told.getByText("loss is NaN; the run was cancelled (rule loss nan)").waitFor();
  assert.deepEqual(await violations(page), []);
});

inBrowser("a long chart is zoomed by dragging: new buckets of that part", async ({ core, page, base }) => {
  const long = core.addExecuting("long-run");
  for (let i = 0; i < 100; i++) core.addEpisode(long.runId, 500);
  await page.goto(`${base}/runs/${long.runId}`);
  const chart = page.locator("[data-series=reward]");
  await chart.locator("canvas").waitFor();
  await until(async () => await points(page, "reward") === 50_000, { what: "all of the run" });
  const box = (await chart.locator(".u-over").boundingBox())!;
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.5, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.55, y, { steps: 5 });
  await page.mouse.up();
  await until(async () => await points(page, "reward") < 45_000, { what: "the zoom" });
  await chart.getByRole("button", { name: "Show all of Step reward" }).click();
  await until(async () => await points(page, "reward") === 50_000, { what: "all of the run again" });
});

inBrowser("a zoom over time shows what was recorded then, and says where nothing was", async ({ core, page, base }) => {
  const paused = core.addExecuting("paused-run");
  const start = Date.UTC(2025, 0, 1);
  // Ten seconds of work, eighty of nothing, ten of work.
  for (let s = 0; s < 100; s += s === 9 ? 81 : 1) core.addEpisode(paused.runId, 3, undefined, start + s * 1000);
  await page.goto(`${base}/runs/${paused.runId}`);
  const chart = page.locator("[data-series=reward]");
  await chart.locator("canvas").waitFor();
  const drag = async (from: number, to: number) => {
    const box = (await chart.locator(".u-over").boundingBox())!;
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * from, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, y, { steps: 5 });
    await page.mouse.up();
  };
  for (const mode of ["relative", "wall"]) {
    await page.getByLabel("X axis").selectOption(mode);
    await until(async () => await points(page, "reward") === 60, { what: "all of the run" });
    await drag(0.3, 0.7);
    await page.locator(".notice").filter({ hasText: "Step reward: nothing was recorded between" }).waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
    assert.equal(await points(page, "reward"), 60);
    assert.equal(await chart.getAttribute("data-zoomed"), null);
    await drag(0.7, 0.999);
    await until(async () => await points(page, "reward") <= 30, { what: "the zoom" });
    assert.ok(await points(page, "reward") > 0);
    await chart.getByRole("button", { name: "Show all of Step reward" }).click();
    await until(async () => await points(page, "reward") === 60, { what: "all of the run again" });
  }
});

inBrowser(
  "a failed run shows its parameters, and the end of its stderr without a scroll",
  async ({ core, page, base }) => {
    const parameters = Object.entries({ lr: 0.003, "optim.name": "adam", sizes: [64, 64] })
      .map(([name, value]) => ({ name, source: "config", value: JSON.stringify(value) }));
    const run = core.begun(core.add("failed-run", {}, parameters).runId);
    const stderrTail = [...Array.from({ length: 40 }, (_, i) => `  frame ${i}`), "RuntimeError: the last line"];
    core.ended(run.runId, { code: 1, stderrTail });
    await page.goto(`${base}/runs/${run.runId}`);
    const pre = page.locator(".failure pre");
    await pre.waitFor();
    const below = () => pre.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);
    await until(async () => await below() < 2, { what: "the last line in sight", state: below });
    assert.ok(await pre.evaluate((e) => e.scrollTop) > 0);
    const shown = await page.locator("h2:text-is('Parameters') + dl > div").allTextContents();
    assert.deepEqual(shown, ["lr0.003", "optim.nameadam", "sizes[64,64]"]);
  },
);

inBrowser("what a worker says stays text, in every view", async ({ core, page, base }) => {
  const failed = fail(core, core.addExecuting("failed-run"));
  const hostile = await hostileRun(core);
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
  await until(async () => await page.locator("#panel-frames .frame-text").textContent() === XSS, {
    what: "the frame's text",
  });
  await page.getByRole("tab", { name: "Steps" }).click();
  await page.locator("#panel-steps tbody tr").nth(4).waitFor();
  await page.goto(`${base}/runs/${failed.runId}`);
  await page.locator(".failure pre").filter({ hasText: "globalThis.broken" }).waitFor();
  await page.goto(`${base}/compare?runs=${hostile.runId},${failed.runId}`);
  await page.locator("[data-series=episode_reward] canvas").waitFor();
  assert.equal(await page.evaluate(() => "broken" in globalThis), false);
  assert.equal(await page.locator("main script, main img").count(), 0);
});

inBrowser(
  "accessible: axe finds nothing in any view, light, dark and on a phone; nothing moves by itself",
  async ({ core, page, base }) => {
    liveRun(core);
    const failed = fail(core, core.addExecuting("failed-run"));
    const hostile = await hostileRun(core);
    /** @param changed where it differs from the view before, if not everywhere */
    const check = async (view: string, changed?: string) => {
      assert.deepEqual(await violations(page), [], view);
      // Colours are all that differs in the dark; those of what has not changed were checked in the view before.
      await page.emulateMedia({ colorScheme: "dark" });
      await page.locator("html[data-theme=dark]").waitFor();
      const inTheDark = await violations(page, { rules: ["color-contrast"], within: changed });
      assert.deepEqual(inTheDark, [], `${view}, dark`);
      await page.emulateMedia({ colorScheme: "light" });
      await page.locator("html[data-theme=light]").waitFor();
    };
    await page.goto(base);
    await page.locator("td.name").nth(2).waitFor();
    await page.locator("td.check input").first().check();
    await check("runs");
    const moving = () =>
      page.evaluate(() =>
        [...document.querySelectorAll("*")].filter((e) => {
          const { animationName, animationDuration, transitionDuration } = getComputedStyle(e);
          const seconds = [animationName === "none" ? "0s" : animationDuration, transitionDuration];
          return seconds.some((s) => Math.max(...s.split(",").map(parseFloat)) > 0.01);
        }).length
      );
    assert.equal(await moving(), 0);
    await page.locator(".selection button[data-action=cancel]").click();
    await page.locator("dialog[open], .notice").first().waitFor();
    await check("a question");
    await page.goto(`${base}/runs/${failed.runId}`);
    await page.locator(".failure pre").waitFor();
    await check("a failed run");
    await page.goto(`${base}/compare?runs=${hostile.runId},${failed.runId}`);
    await page.locator("[data-series=episode_reward] canvas").waitFor();
    await check("compare");
    await page.goto(`${base}/compare`);
    await page.getByRole("combobox", { name: "Add a run" }).waitFor();
    await check("compare, nothing chosen");
    await page.goto(`${base}/wall`);
    await page.locator("main h1").waitFor();
    await check("wall");
    await page.goto(`${base}/runs/${hostile.runId}`);
    for (const tab of ["Overview", "Steps", "Episodes", "Frames", "Logs", "Config", "Events", "Artifacts"]) {
      await page.getByRole("tab", { name: tab }).click();
      const panel = `#panel-${tab.toLowerCase()}`;
      await page.locator(`${panel} > *`).first().waitFor({ state: "attached" });
      await check(tab, tab === "Overview" ? undefined : `[role=tablist], ${panel}`);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    const ends = await page.locator(".top > :visible").evaluateAll((all) =>
      all.map((e) => e.getBoundingClientRect().bottom)
    );
    assert.ok(Math.max(...ends) < 44, "the header has one line");
    for (const tab of ["Overview", "Logs"]) {
      await page.getByRole("tab", { name: tab }).click();
      assert.deepEqual(await violations(page), [], `${tab} on a phone`);
    }
    for (const path of ["/", `/compare?runs=${hostile.runId},${failed.runId}`]) {
      await page.goto(base + path);
      await page.locator("main table").first().waitFor();
      assert.deepEqual(await violations(page), [], `${path} on a phone`);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${path} is ${wider} px wider than a phone`);
    }
  },
);

inBrowser("by keyboard: every control is reached, shows its focus, and works", async ({ core, page, base }) => {
  liveRun(core);
  fail(core, core.addExecuting("failed-run"));
  const hostile = await hostileRun(core);
  // So many that most charts are far below what is in sight.
  const metrics = JSON.stringify(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`metric_${i}`, i])));
  for (let i = 1; i <= 2; i++) {
    core.addEpisode(hostile.runId, 1, () => JSON.stringify({ ansi: XSS }), 1_000_000 + i, metrics);
  }
  await page.goto(base);
  await page.locator("td.name").nth(2).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("failed");
  await until(async () => await page.locator("td.name").count() === 1, { what: "the filter to apply" });
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".run-title h1").waitFor();
  await page.goto(`${base}/runs/${hostile.runId}`);
  // What comes later than the page itself.
  for (const late of ["[data-series=metric_19]", ".live-tiles [data-of]"]) await page.locator(late).waitFor();
  await page.evaluate(() =>
    addEventListener("focusin", ({ target }) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(target as HTMLElement);
      const shown = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
      (target as HTMLElement).dataset.focus = shown ? "shown" : "not shown";
    })
  );
  /** How it is with the focus of each control, where it was not there, or did not show. */
  const wrong = () =>
    page.evaluate(() => {
      const wanted = "a[href], button, input, select, textarea, summary, [tabindex='0']";
      return [...document.querySelectorAll<HTMLElement>(wanted)].filter((e) =>
        e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true }) && !(e as HTMLButtonElement).disabled &&
        e.dataset.focus !== "shown"
      ).map((e) => `${e.dataset.focus ?? "not reached"}: ${e.getAttribute("aria-label") ?? e.outerHTML.slice(0, 120)}`);
    });
  const { length } = await wrong();
  assert.ok(length > 60, `${length} controls`);
  // As a key that is held down: nothing is drawn in between.
  await Promise.all(Array.from({ length: length + 5 }, () => page.keyboard.press("Tab")));
  assert.deepEqual(await wrong(), []);
  await page.getByRole("tab", { name: "Overview" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("#panel-steps tbody tr").nth(4).waitFor();
  await page.keyboard.press("End");
  await page.locator("#panel-artifacts:not([hidden])").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal(core.registry.require(hostile.runId).state, "EXECUTING");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Cancel");
});

inBrowser(
  "the daemon goes away and comes back: said, and nothing is missed",
  async ({ core, page, base, stop, start }) => {
    await page.goto(base);
    await page.locator("#connection[data-state=live]").waitFor();
    await stop();
    await page.getByText("Daemon unreachable, retrying").waitFor();
    core.addExecuting("came-meanwhile");
    start();
    await page.locator("#connection[data-state=live]").waitFor();
    await page.locator("tr", { hasText: "came-meanwhile" }).waitFor();
    // The token of the earlier process is replaced without a reload.
    await page.getByRole("link", { name: "came-meanwhile" }).click();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.locator(".run-title .chip[data-state=PAUSED]").waitFor();
  },
);

inBrowser(
  "several runs are slowed and paused at once; a click into a record's row shows it whole",
  async ({ core, page, base }) => {
    const runs = ["one", "two"].map((name) => core.addExecuting(name));
    core.addEpisode(runs[0]!.runId, 3);
    await page.goto(base);
    for (const name of ["one", "two"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    const button = (action: string) => page.locator(`.selection button[data-action=${action}]`);
    await button("throttle").click();
    await page.getByLabel("Steps per second").fill("7");
    await page.getByRole("button", { name: "Set limit" }).click();
    await page.getByText("Throttle: 2 runs.").waitFor();
    await button("pause").click();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("Pause: 2 runs.").waitFor();
    for (const { runId } of runs) {
      const { maxRateHz, pauseRequested } = core.registry.require(runId);
      assert.deepEqual([maxRateHz, pauseRequested], [7, true]);
    }
    assert.equal(await button("retry").count(), 0, "none of them has ended");
    await page.goto(`${base}/runs/${runs[0]!.runId}#steps`);
    await page.getByRole("tab", { name: "Steps" }).click();
    await page.locator("#panel-steps tbody tr").nth(1).locator("td").last().click();
    await page.locator("pre.json", { hasText: '"seq": 2' }).waitFor();
  },
);

/** More than the page reads with one request; a power of ten, so that the last one has the last name. */
const MANY = LONG_TESTS ? 10_000 : 1000;

inBrowser("thousands of runs: few rows in the document, filter and sort at once", async ({ core, page, base }) => {
  core.addMany("many-", MANY);
  const last = `many-${MANY - 1}`;
  // Eleven runs: that of this name, and those with one digit more.
  const someName = last.slice(0, -1);
  await page.goto(base);
  await page.getByText(`${MANY.toLocaleString("en")} runs`, { exact: true }).waitFor();
  assert.ok(await page.locator("table.runs tbody tr").count() < 120);
  await page.getByRole("searchbox", { name: "Filter by name or id" }).fill(last);
  await page.getByRole("link", { name: last, exact: true }).waitFor();
  await page.getByRole("searchbox", { name: "Filter by name or id" }).fill(someName);
  await page.getByText(`11 of ${MANY.toLocaleString("en")} runs`).waitFor();
  await page.getByRole("checkbox", { name: "Select all shown runs" }).check();
  await page.getByText("11 selected").waitFor();
  await page.locator(".selection button[data-action=cancel]").click();
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.getByText("Cancel: 11 runs.").waitFor();
  assert.equal(
    core.registry.list({ states: ["CANCELLED"], nameContains: someName }, { limit: 100 }).runs.length,
    11,
  );
  await page.getByRole("searchbox", { name: "Filter by name or id" }).fill("many-");
  await page.getByRole("button", { name: "Name", exact: true }).click();
  await page.getByRole("link", { name: "many-0", exact: true }).waitFor();
  await page.getByRole("region", { name: "Table of runs" }).focus();
  await page.keyboard.press("End");
  await page.getByRole("link", { name: last, exact: true }).waitFor();
});

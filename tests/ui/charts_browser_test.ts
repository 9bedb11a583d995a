/** Charts of runs in a real browser, and what a click on them opens. */
import assert from "node:assert/strict";
import type { RunRow } from "../../src/registry/row_types.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { fromMenu, inBrowser, liveRun, points, ticks } from "./in_browser.ts";

/** A GIF of one pixel. */
const GIF = Uint8Array.from(
  atob("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"),
  (c) => c.charCodeAt(0),
);

inBrowser(
  "a chart draws, moves and zooms; pause, resume and cancel by click",
  async ({ core, page, base }) => {
    const live = liveRun(core);
    await page.goto(`${base}/runs/${live.runId}`);
    await page.locator("[data-series=episode_reward] canvas").waitFor();
    const before = await until(() => points(page, "episode_reward"), {
      what: "points in the chart",
    });
    core.addEpisode(live.runId, 120);
    await until(async () => await points(page, "episode_reward") > before, {
      what: "the chart to move",
    });
    const all = await points(page, "episode_reward");
    await fromMenu(page.locator("[data-series=episode_reward]"), "Zoom into the last half");
    await until(async () => await points(page, "episode_reward") < all, {
      what: "the zoom to apply",
    });
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.locator(".run-title .chip[data-state=PAUSED]").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator(".run-title .chip[data-state=EXECUTING]").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel it" }).click();
    await page.locator(".run-title .chip[data-state=CANCELLED]").waitFor();
    assert.equal(core.registry.require(live.runId).state, "CANCELLED");
  },
);

inBrowser(
  "seeds as one curve: groups fold, tell their runs, and are in the address",
  async ({ core, page, base }) => {
    const runs = [
      "ppo-seed1",
      "ppo-seed2",
      "dqn-seed1",
      ...Array.from({ length: 12 }, (_, i) => `sac-seed${i}`),
    ]
      .map((name) => core.addExecuting(name));
    for (const [i, { runId }] of runs.entries()) core.addEpisodes(runId, 10 + i, 5);
    await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}`);
    const chart = page.locator("[data-series=episode_reward]");
    await until(async () => await chart.locator(".legend > button").count() === runs.length, {
      what: "a line of each run",
    });
    await page.getByLabel("Group by").selectOption("name");
    await chart.locator(".legend", { hasText: "sac (12 runs)" }).waitFor();
    assert.equal(await chart.locator(".legend > button").count(), 3);
    await page.getByLabel("Band").selectOption("minmax");
    assert.match(page.url(), /[?&]group=name/);
    assert.match(page.url(), /[?&]band=minmax/);
    await chart.scrollIntoViewIfNeeded();
    const box = (await chart.locator(".u-over").boundingBox())!;
    await page.mouse.move(box.x + 5, box.y + 20);
    await page.locator(".tip", { hasText: "12 runs" }).waitFor();
    // The shorter runs of the group are over before its last episode.
    await page.mouse.move(box.x + box.width - 2, box.y + 20);
    await page.locator(".tip", { hasText: /, 1 run\b/ }).waitFor();
    const group = page.getByRole("button", { name: "ppo", exact: true });
    assert.equal(await group.getAttribute("aria-expanded"), "false");
    await group.click();
    await page.locator("tbody").getByRole("link", { name: "ppo-seed2" }).waitFor();
    await page.reload();
    await chart.locator(".legend", { hasText: "sac (12 runs)" }).waitFor();
    assert.deepEqual(await violations(page), []);
  },
);

inBrowser(
  "a crowd of runs: thin lines with a name where one points; zoom redraws at once; all of it by its address",
  async ({ core, page, base }) => {
    const runs = Array.from({ length: 45 }, (_, i) => core.addExecuting(`ppo-lr${i % 3}-seed${i}`));
    for (const [i, { runId }] of runs.entries()) core.addEpisodes(runId, 40, 1 + i);
    const address = `${base}/compare?runs=${[...runs.map((r) => r.runId), "01NOSUCH"].join()}`;
    const asked: string[] = [];
    page.on(
      "request",
      (r) => /\/api\/(series|compared|runs\?|runs\/[^/]+$)/.test(r.url()) && asked.push(r.url()),
    );
    // Without ticks nothing is read again while requests are counted.
    await page.route("**/api/live?*", (route) => route.abort());
    await page.goto(`${address}&smoothing=0`);
    const chart = page.locator("[data-series=episode_reward]");
    await chart.getByText("45 runs, 40 places each at most").waitFor();
    await page.getByText("1 run no longer there.").waitFor();
    // However many runs there are.
    assert.ok(asked.length < 12, asked.join("\n"));
    const of = (path: string) => asked.filter((url) => url.endsWith(path)).length;
    // The first script asks; the program takes the answers, and asks for names itself only because
    // a run is gone.
    assert.deepEqual([of("/api/compared/first"), of("/api/compared"), of("/api/series/names")], [
      1,
      0,
      1,
    ]);
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
    assert.deepEqual(
      [of("/api/compared"), of("/api/series/names"), of("/api/series")],
      [0, 0, 1],
      asked.join("\n"),
    );
    await page.route("**/api/compared/first", (route) => route.abort());
    asked.length = 0;
    await page.reload();
    await page.locator("[data-series=reward] canvas").first().waitFor();
    assert.deepEqual(
      [of("/api/compared"), of("/api/series/names"), of("/api/series")],
      [1, 1, 3],
      asked.join("\n"),
    );
    await page.unroute("**/api/compared/first");
    await page.unroute("**/api/live?*");
    await page.goto(`${address}&smoothing=0`);
    await chart.getByText("45 runs, 40 places each at most").waitFor();
    const over = chart.locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 2);
    await page.mouse.move(box.x + box.width / 2, box.y + 8);
    await chart.locator(".legend", { hasText: /^ppo-lr\d-seed4\d \d+ at episode (19|2\d)$/ })
      .waitFor();
    // The other chart over episodes names the same run.
    const named = (await chart.locator(".legend").textContent())!.split(" ")[0]!;
    await page.locator("[data-series=episode_length] .legend", { hasText: named }).waitFor();
    await fromMenu(chart, "Table of Episode reward");
    assert.equal(await chart.locator(".figures tbody tr").count(), 45);
    await fromMenu(chart, "Table of Episode reward");
    await fromMenu(chart, "Zoom into the last half");
    await until(async () => await chart.getAttribute("aria-busy") === null, {
      what: "the points of the zoom",
    });
    const view = () => chart.locator(".plot").getAttribute("data-view");
    const zoomed = await view();
    assert.match(zoomed!, /^2\d,40$/);
    await fromMenu(chart, "Keep Episode reward on top");
    await page.getByLabel("Group by").selectOption("name");
    await page.getByRole("button", { name: "ppo-lr1", exact: true }).click();
    await page.locator("details.section summary", { hasText: "Pinned" }).waitFor();
    const link = page.url();
    for (
      const part of ["zoom=episode_reward", "pin=episode_reward", "group=name", "open=ppo-lr1"]
    ) {
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
    // One's own pins are not on top of what a link shows, and come with an address that says
    // nothing of charts.
    await page.evaluate(() => localStorage.setItem("mosaic-pinned", '["reward"]'));
    await page.goto(`${address}&smoothing=0`);
    await chart.locator("canvas").first().waitFor();
    assert.equal(await page.locator("details.section").count(), 0);
    await page.goto(address);
    await page.locator("details.section summary", { hasText: "Pinned" }).waitFor();
    await until(() => page.url().includes("pin=reward"), {
      what: "what one sees to be in the address",
    });
  },
);

inBrowser(
  "charts by keyboard: cursor, zoom, and the table behind; ? tells the keys",
  async ({ core, page, base }) => {
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
    await until(async () => await points(page, "episode_reward") === 40, {
      what: "all points again",
    });
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.locator("table.runs").waitFor();
  },
);

inBrowser(
  "what a later attempt overwrote is faded, and hidden on request",
  async ({ core, page, base }) => {
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
    await page.goto(`${base}/?pane=list`);
    const steps = page.getByText("450 (100 overwritten)");
    await steps.waitFor();
    // It is cut where the column is too narrow.
    assert.equal(await steps.getAttribute("title"), "450 (100 overwritten)");
  },
);

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
      const colored = (place: number) => {
        const left = (over.offsetLeft + over.clientWidth * place) * scale;
        const { data } = canvas.getContext("2d")!.getImageData(left - 2, 0, 4, canvas.height);
        return data.some((_, i) => {
          const [r, g, b, a] = [...data.subarray(i, i + 4)] as [number, number, number, number];
          return i % 4 === 0 && a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 60;
        });
      };
      return [0.2, 0.45, 0.8].map(colored);
    });
    assert.deepEqual(drawn, [true, false, true]);
  },
);

inBrowser(
  "the x axis is any metric: of runs, of groups, and by its address",
  async ({ core, page, base }) => {
    const runs = ["a-seed1", "a-seed2", "b-seed1"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) {
      for (let i = 0; i <= 20; i++) {
        core.addEpisode(
          runId,
          1,
          undefined,
          1_000_000 + i * 1000,
          JSON.stringify({ tokens: 500 * i, loss: 20 - i }),
        );
      }
    }
    await page.goto(
      `${base}/compare?runs=${runs.map((r) => r.runId).join()}&group=name&smoothing=0`,
    );
    const chart = page.locator("[data-series=loss]");
    await chart.locator("canvas").waitFor();
    await page.getByLabel("X axis").selectOption("metric:tokens");
    // The chart is drawn anew when the other axis has come.
    const last = () =>
      until(async () => {
        await chart.getByRole("img").focus();
        await page.keyboard.press("Home");
        await page.keyboard.press("End");
        return await chart.locator(".readout", { hasText: "at tokens 10,000" }).isVisible();
      }, { what: "the last point by tokens" });
    await last();
    await page.locator(".tip .value", { hasText: /^0, 2 runs$/ }).waitFor();
    assert.equal(await chart.locator(".value").first().textContent(), "0");
    await page.reload();
    await chart.locator("canvas").waitFor();
    await last();
    assert.match(page.url(), /[?&]x=metric(:|%3A)tokens/);
  },
);

inBrowser(
  "charts are read again only when something was recorded of one of their runs",
  async ({ core, page, base }) => {
    const runs = ["calm", "busy", "short"].map((name) => core.addExecuting(name));
    const [calm, busy, short] = runs as [RunRow, RunRow, RunRow];
    for (const { runId } of runs) core.addEpisodes(runId, 5, 3);
    const asked: string[] = [];
    page.on("request", (r) => {
      const { pathname } = new URL(r.url());
      if (/^\/api\/(series|compared)$/.test(pathname)) asked.push(`${pathname} ${r.postData()}`);
    });
    const row = (name: string) =>
      page.locator("tbody tr").filter({ has: page.getByRole("link", { name, exact: true }) });
    await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}`);
    await page.locator("[data-series=episode_reward] canvas").waitFor();
    await ticks(page, "/api/live", 10);
    asked.length = 0;
    await ticks(page, "/api/live", 10);
    assert.equal(asked.length, 0, `nothing was recorded: ${asked}`);
    core.addEpisodes(busy.runId, 5, 3);
    await row("busy").locator("td", { hasText: /^30$/ }).waitFor({ state: "attached" });
    await until(() => asked.some((one) => one.startsWith("/api/series ")), {
      what: "its charts to be read",
    });
    asked.length = 0;
    core.telemetry.sample(calm.runId, 1, [["system/processes", 3]]);
    await until(() => asked.some((one) => one.startsWith("/api/series ")), {
      what: "the run to be read",
    });
    // What a tick tells of a run is not asked for.
    assert.ok(!asked.some((one) => one.startsWith("/api/compared ")), asked.join("\n"));
    core.ended(short.runId, { code: 0 });
    await row("short").locator(".chip[data-state=TERMINATED]").waitFor();
    core.edit(short.runId, { name: "renamed" });
    await row("renamed").waitFor();
    await core.delete(short.runId, true);
    await page.getByText("1 run no longer there.").waitFor();
    assert.equal(await row("renamed").count(), 0);
  },
);

inBrowser(
  "a long chart is zoomed by dragging: new buckets of that part",
  async ({ core, page, base }) => {
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
    await until(async () => await points(page, "reward") === 50_000, {
      what: "all of the run again",
    });
  },
);

inBrowser(
  "a zoom over time shows what was recorded then, and says where nothing was",
  async ({ core, page, base }) => {
    const paused = core.addExecuting("paused-run");
    const start = Date.UTC(2025, 0, 1);
    // Ten seconds of work, eighty of nothing, ten of work.
    for (let s = 0; s < 100; s += s === 9 ? 81 : 1) {
      core.addEpisode(
        paused.runId,
        3,
        undefined,
        start + s * 1000,
      );
    }
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
      await page.locator(".notice").filter({ hasText: "Step reward: nothing was recorded between" })
        .waitFor();
      await page.getByRole("button", { name: "Dismiss" }).click();
      assert.equal(await points(page, "reward"), 60);
      assert.equal(await chart.getAttribute("data-zoomed"), null);
      await drag(0.7, 0.999);
      await until(async () => await points(page, "reward") <= 30, { what: "the zoom" });
      assert.ok(await points(page, "reward") > 0);
      await chart.getByRole("button", { name: "Show all of Step reward" }).click();
      await until(async () => await points(page, "reward") === 60, {
        what: "all of the run again",
      });
    }
  },
);

inBrowser(
  "media of a run by step; a click on a curve opens that episode's clip, else its frames",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("films");
    const { directory } = core.detail(core.registry.require(runId));
    Deno.mkdirSync(`${directory}/videos`, { recursive: true });
    const put = (path: string, step: number | null) => {
      Deno.writeFileSync(`${directory}/${path}`, GIF);
      core.registry.putArtifact({
        runId,
        path,
        kind: "video",
        bytes: GIF.length,
        sha256: "",
        step,
        windowId: "",
        at: 1,
      });
    };
    for (const episode of [0, 3, 6]) put(`videos/film-episode-${episode}.gif`, null);
    const now = Date.now();
    for (let n = 0; n < 10; n++) core.addEpisode(runId, 3, () => '{"ansi":"@"}', now + n * 1000);
    const xss = "<img src=x onerror=globalThis.broken=1>";
    const event = (kind: string, data: unknown) => ({
      kind,
      dataJson: JSON.stringify(data),
      tsNs: "",
    });
    for (const step of [100, 200]) {
      core.record(runId, [
        event("text", { tag: xss, text: `${xss} ${step}`, global_step: step }),
        event("histogram", {
          tag: "weights",
          left: [0, 1],
          right: [1, 2],
          count: [3, 1],
          global_step: step,
        }),
      ]);
    }
    await page.goto(`${base}/runs/${runId}#media`);
    const film = page.locator(".medium[data-tag=film]");
    await film.locator("img").waitFor();
    assert.match(await film.locator("img").getAttribute("src") ?? "", /episode-6\.gif/);
    await until(
      () => film.locator("img").evaluate((e) => (e as HTMLImageElement).naturalWidth === 1),
      {
        what: "the picture to be drawn",
      },
    );
    const told = page.locator(".medium pre.told");
    await until(async () => (await told.textContent())?.endsWith(" 200"), {
      what: "the newest text",
    });
    assert.match(
      await page.locator("svg.histogram").getAttribute("aria-label") ?? "",
      /4 values from 0 to 2/,
    );
    await page.locator(".media-step input").fill("0");
    await until(async () => (await told.textContent())?.endsWith(" 100"), {
      what: "the text of the chosen step",
    });
    assert.equal(await page.evaluate(() => "broken" in globalThis), false);

    await page.locator("#tab-overview").click();
    const plot = page.locator("[data-series=episode_reward] .u-over");
    await plot.waitFor();
    /**
     * Until the tab is shown: a chart is read again when its tab is selected, and becomes narrower
     * when others join its row; a click in that moment may be none.
     * @param n of ten episodes
     */
    const click = (n: number, tab: string) =>
      until(async () => {
        if (await page.locator(`#tab-${tab}[aria-selected=true]`).count() > 0) return true;
        const box = await plot.boundingBox();
        if (box === null) return false;
        const x = Math.min(box.width - 2, box.width * n / 9);
        await page.mouse.click(box.x + x, box.y + box.height / 2);
        return false;
      }, { what: `the tab ${tab}` });
    await click(3, "media");
    await until(
      async () => /episode-3\.gif/.test(await film.locator("img").getAttribute("src") ?? ""),
      {
        what: "the clip of the clicked episode",
      },
    );
    assert.equal(await page.locator("#tab-media").getAttribute("aria-selected"), "true");
    await page.locator("#tab-overview").click();
    await click(4, "frames");
    await page.locator("#panel-frames .sub", { hasText: /^Episode 4, step 0/ }).waitFor();
  },
);

inBrowser(
  "a file that is not sent: its card and its link say why, and nothing is saved",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("elsewhere");
    const more = { bytes: 1, sha256: "", step: null, windowId: "", at: 1 };
    core.registry.putArtifact({ runId, path: "/etc/film.gif", kind: "video", ...more });
    const { directory } = core.detail(core.registry.require(runId));
    Deno.writeTextFileSync(`${directory}/model.pt`, "weights");
    core.registry.putArtifact({ runId, path: "model.pt", kind: "checkpoint", ...more });
    await page.goto(`${base}/runs/${runId}#media`);
    await page.locator(".medium", { hasText: "is not in the run's working directory" }).waitFor();
    await page.locator("#tab-artifacts").click();
    const saved: string[] = [];
    page.on("download", (download) => saved.push(download.suggestedFilename()));
    await page.getByRole("link", { name: "/etc/film.gif" }).click();
    await page.locator(".notice", { hasText: "copy it on the host itself" }).waitFor();
    await page.getByRole("link", { name: "model.pt" }).click();
    await until(() => saved.length > 0, { what: "the file to be saved" });
    assert.deepEqual(saved, ["model.pt"]);
  },
);

inBrowser(
  "a chart of several lines: values at the pointer by size, nothing moves; its legend hides and isolates",
  async ({ core, page, base }) => {
    const runs = ["a2c-high-seed1", "sac-low-seed1", "ppo-middle-seed1"].map((name) =>
      core.addExecuting(name)
    );
    for (const [i, { runId }] of runs.entries()) {
      for (let n = 0; n < 10; n++) core.addEpisode(runId, [30, 10, 20][i]!);
    }
    await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}`);
    const chart = page.locator("[data-series=episode_reward]");
    await until(async () => await chart.locator(".legend > button").count() === 3, {
      what: "the legend",
    });
    await chart.scrollIntoViewIfNeeded();
    const size = () =>
      chart.evaluate((e) =>
        `${e.clientHeight} ${
          [...e.querySelectorAll(".legend button")].map((b) =>
            `${b.getBoundingClientRect().left} ${b.clientWidth}`
          )
        }`
      );
    const before = await size();
    const box = (await chart.locator(".u-over").boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 4);
    await page.mouse.move(box.x + box.width / 2, box.y + 8);
    const tip = page.locator(".tip");
    await tip.waitFor();
    assert.deepEqual(await tip.locator("bdi").allTextContents(), [
      "a2c-high-seed1",
      "ppo-middle-seed1",
      "sac-low-seed1",
    ]);
    assert.equal(await tip.locator(".near bdi").textContent(), "a2c-high-seed1");
    assert.equal(await size(), before, "the chart keeps its places under the pointer");
    await page.mouse.move(2, 2);
    await tip.waitFor({ state: "hidden" });
    // Three runs, three colours, the same in the table and after one is left out.
    const colors = () =>
      page.locator("td.eye button[aria-pressed=true]").evaluateAll((all) =>
        all.map((e) => getComputedStyle(e).color)
      );
    const all = await colors();
    assert.equal(new Set(all).size, 3);
    const ppo = await page.getByRole("button", { name: "Draw ppo-middle-seed1" }).evaluate((e) =>
      getComputedStyle(e).color
    );
    const entry = (name: string) => chart.locator(".legend > button", { hasText: name });
    await entry("sac").click();
    await until(() => page.url().includes("hide=sac-low-seed1"), {
      what: "the hidden line in the address",
    });
    assert.equal(await entry("sac").getAttribute("aria-pressed"), "false");
    await entry("ppo").click({ modifiers: ["Shift"] });
    await until(
      async () => await chart.locator(".legend > button[aria-pressed=true]").count() === 1,
      {
        what: "one line",
      },
    );
    await page.reload();
    await until(
      async () => await chart.locator(".legend > button[aria-pressed=true]").count() === 1,
      {
        what: "one line again",
      },
    );
    await entry("ppo").click({ modifiers: ["Shift"] });
    await until(
      async () => await chart.locator(".legend > button[aria-pressed=true]").count() === 3,
      {
        what: "all lines",
      },
    );
    await page.getByRole("button", { name: "Draw ppo-middle-seed1" }).click();
    await until(async () => (await colors()).length === 2, { what: "two runs" });
    assert.deepEqual((await colors()).sort(), all.filter((c) => c !== ppo).sort());
    assert.deepEqual(await violations(page), []);
  },
);

inBrowser(
  "a double click shows all again; a chart's own range, scales, smoothing and x axis are in the address",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("ranges");
    for (let n = 0; n < 60; n++) core.addEpisode(runId, n === 30 ? 900 : 10 + n % 5);
    await page.goto(`${base}/runs/${runId}?zoom=episode_reward:10-20`);
    const chart = page.locator("[data-series=episode_reward]");
    await chart.locator("canvas").waitFor();
    assert.notEqual(await chart.getAttribute("data-zoomed"), null);
    await chart.locator(".u-over").dblclick();
    await until(async () => await chart.getAttribute("data-zoomed") === null, {
      what: "the whole curve",
    });
    assert.equal(await page.locator("#tab-overview").getAttribute("aria-selected"), "true");
    const top = () =>
      chart.locator(".plot").evaluate((e) => Number((e as HTMLElement).dataset.top));
    await until(async () => await top() > 800, { what: "the outlier in the range" });
    await fromMenu(chart, "Episode reward without outliers");
    await until(async () => await top() < 100, { what: "the range without it" });
    await fromMenu(chart, "Settings of Episode reward");
    const settings = page.getByRole("dialog", { name: "Settings of Episode reward" });
    await settings.getByLabel("Highest y").fill("-5");
    await settings.getByLabel("Lowest y").fill("0");
    await settings.getByText("The lowest value is not below the highest.").waitFor();
    await settings.getByLabel("Highest y").fill("50");
    await until(async () => await top() === 50, { what: "the chosen range" });
    await settings.getByLabel("Y scale").selectOption("Linear");
    await settings.getByLabel("X axis").selectOption("metric:episode_length");
    await settings.getByLabel("Smoothing").fill("0.3");
    await settings.getByText("0.30", { exact: true }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await settings.waitFor({ state: "detached" });
    await page.getByLabel("Log x").check();
    await until(
      () =>
        [
          ...["trim=episode_reward", "y=episode_reward%3A0,50", "logx=1"],
          "own=episode_reward%3Ax%3Dmetric%253Aepisode_length%26smoothing%3D0.3%26log%3D0",
        ].every((part) => page.url().includes(part)),
      {
        what: "it in the address",
        state: () => page.url(),
      },
    );
    await page.reload();
    await until(async () => await top() === 50, { what: "the chosen range" });
    // Only this chart has its own axis.
    for (
      const [series, unit] of [["episode_reward", "episode_length"], ["episode_length", "episode"]]
    ) {
      const other = page.locator(`[data-series=${series}]`);
      await until(async () => {
        await other.getByRole("img").focus();
        await page.keyboard.press("End");
        return await other.locator(".readout", { hasText: new RegExp(`at ${unit} [0-9]`) })
          .isVisible();
      }, { what: `the x axis of ${series}` });
    }
  },
);

inBrowser(
  "a chart is saved as SVG and PNG, with title, axes and legend",
  async ({ core, page, base }) => {
    const runs = ["first <b>", "second"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) core.addEpisodes(runId, 30, 5);
    await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}`);
    const chart = page.locator("[data-series=episode_reward]");
    await until(async () => await chart.locator(".legend > button").count() === 2, {
      what: "the legend",
    });
    const save = async (name: string) => {
      const download = page.waitForEvent("download");
      await fromMenu(chart, name);
      return await Deno.readFile(await (await download).path());
    };
    const svg = new TextDecoder().decode(await save("Download Episode reward as SVG"));
    const wrong = await page.evaluate(
      (text) =>
        new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")
          ?.textContent,
      svg,
    );
    assert.equal(wrong, undefined);
    for (
      const text of [
        ">Episode reward<",
        ">first &#60;b&#62;<",
        ">second<",
        ">episode<",
        "<polyline",
      ]
    ) {
      assert.ok(svg.includes(text), text);
    }
    const png = await save("Download Episode reward as PNG");
    const { getUint32 } = { getUint32: (at: number) => new DataView(png.buffer).getUint32(at) };
    assert.deepEqual([String.fromCharCode(...png.subarray(1, 4)), getUint32(16)], ["PNG", 1950]);
  },
);

inBrowser(
  "any run can be added to a comparison; words of the metrics' filter narrow it",
  async ({ core, page, base }) => {
    core.addMany("old-", 300);
    const first = core.addExecuting("first");
    const metrics = JSON.stringify({
      "train/loss": 1,
      "train/kl": 2,
      "eval/loss": 3,
      "a": 1,
      "b": 1,
      "c": 1,
    });
    for (let i = 0; i < 3; i++) core.addEpisode(first.runId, 2, undefined, 1_000_000 + i, metrics);
    await page.goto(`${base}/compare?runs=${first.runId}`);
    await page.getByLabel("Show metrics whose names").fill("train loss");
    await until(async () => await page.locator("[data-series]").count() === 1, {
      what: "one chart",
    });
    await page.locator("[data-series='train/loss']").waitFor();
    const picker = page.getByLabel("Add a run");
    await picker.fill("old-7");
    const option = page.locator("datalist option[value^='old-7 (']");
    await option.waitFor({ state: "attached" });
    await picker.fill((await option.getAttribute("value"))!);
    await page.locator("tbody").getByRole("link", { name: "old-7", exact: true }).waitFor();
  },
);

inBrowser(
  "of a live curve only what follows is sent, and the chart is that of everything",
  async ({ core, page, base }) => {
    const runs = ["one", "two"].map((name) => core.addExecuting(name));
    for (const { runId } of runs) core.addEpisodes(runId, 100, 2);
    let bytes = 0;
    let continued = 0;
    page.on("response", async (response) => {
      if (!response.url().endsWith("/api/series")) return;
      if (response.request().postData()?.includes('"have"')) continued++;
      bytes = (await response.body().catch(() => new Uint8Array())).length;
    });
    await page.goto(`${base}/compare?runs=${runs.map((r) => r.runId).join()}&smoothing=0`);
    await until(async () => await points(page, "episode_reward") === 200, { what: "all points" });
    // The body is read behind the drawing.
    await until(() => bytes > 0, { what: "the first answer's body" });
    const whole = bytes;
    for (const round of [1, 2, 3]) {
      core.addEpisodes(runs[0]!.runId, 5, 2);
      await until(async () => await points(page, "episode_reward") === 200 + 5 * round, {
        what: `the points of round ${round}`,
        state: () => points(page, "episode_reward"),
      });
    }
    assert.ok(
      continued >= 3 && bytes * 5 < whole,
      `${continued} answers continued, ${bytes} after ${whole} bytes`,
    );
  },
);

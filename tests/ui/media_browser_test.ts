/** Films, pictures, texts and histograms of a run, and a click on its curve, in a real browser. */
import assert from "node:assert/strict";
import { PlayedEngine } from "../harness/played_engine.ts";
import { until } from "../harness/wait.ts";
import { chromiumPath, launch, openPage } from "./chromium.ts";
import { servePage } from "./served_page.ts";

const executable = chromiumPath();
/** A GIF of one pixel. */
const GIF = Uint8Array.from(atob("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"), (c) => c.charCodeAt(0));

Deno.test({
  name: "page: media of a run by step; a click on a curve opens that episode's clip, else its frames",
  ignore: executable === undefined,
  sanitizeOps: false,
  sanitizeResources: false,
}, async () => {
  await using core = new PlayedEngine();
  const server = servePage(core);
  const browser = await launch(executable!);
  try {
    const { page, errors } = await openPage(browser);
    const { runId } = core.addExecuting("films");
    const { directory } = core.detail(core.registry.require(runId));
    Deno.mkdirSync(`${directory}/videos`, { recursive: true });
    const put = (path: string, step: number | null) => {
      Deno.writeFileSync(`${directory}/${path}`, GIF);
      core.registry.putArtifact({ runId, path, kind: "video", bytes: GIF.length, sha256: "", step, at: 1 });
    };
    for (const episode of [0, 3, 6]) put(`videos/film-episode-${episode}.gif`, null);
    const now = Date.now();
    for (let n = 0; n < 10; n++) core.addEpisode(runId, 3, () => '{"ansi":"@"}', now + n * 1000);
    const xss = "<img src=x onerror=globalThis.broken=1>";
    const event = (kind: string, data: unknown) => ({ kind, dataJson: JSON.stringify(data), tsNs: "" });
    for (const step of [100, 200]) {
      core.record(runId, [
        event("text", { tag: xss, text: `${xss} ${step}`, global_step: step }),
        event("histogram", { tag: "weights", left: [0, 1], right: [1, 2], count: [3, 1], global_step: step }),
      ]);
    }
    await page.goto(`http://${server.address}/runs/${runId}#media`);
    const film = page.locator(".medium[data-tag=film]");
    await film.locator("img").waitFor();
    assert.match(await film.locator("img").getAttribute("src") ?? "", /episode-6\.gif/);
    await until(() => film.locator("img").evaluate((e) => (e as HTMLImageElement).naturalWidth === 1), {
      what: "the picture to be drawn",
    });
    const told = page.locator(".medium pre.told");
    await until(async () => (await told.textContent())?.endsWith(" 200"), { what: "the newest text" });
    assert.match(await page.locator("svg.histogram").getAttribute("aria-label") ?? "", /4 values from 0 to 2/);
    await page.locator(".media-step input").fill("0");
    await until(async () => (await told.textContent())?.endsWith(" 100"), { what: "the text of the chosen step" });
    assert.equal(await page.evaluate(() => "broken" in globalThis), false);

    await page.locator("#tab-overview").click();
    const plot = page.locator("[data-series=episode_reward] .u-over");
    await plot.waitFor();
    const { width, height } = (await plot.boundingBox())!;
    /** @param n of ten episodes */
    const click = (n: number) => plot.click({ position: { x: Math.min(width - 2, width * n / 9), y: height / 2 } });
    await click(3);
    await until(async () => /episode-3\.gif/.test(await film.locator("img").getAttribute("src") ?? ""), {
      what: "the clip of the clicked episode",
    });
    assert.equal(await page.locator("#tab-media").getAttribute("aria-selected"), "true");
    await page.locator("#tab-overview").click();
    await click(4);
    await page.locator("#panel-frames .sub", { hasText: /^Episode 4, step 0/ }).waitFor();
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
    await server.stop();
  }
});

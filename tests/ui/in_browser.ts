/**
 * Tests of the page in a real browser, over an engine without processes: one browser process for
 * all tests of a file, an engine and a page for each.
 */
import assert from "node:assert/strict";
import type { Browser, BrowserContext, Locator, Page } from "npm:playwright-core@1.65.1";
import type { RunRow } from "../../src/registry/row_types.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { chromiumPath, forget, launch, ONE_PROCESS, openContext, pageIn } from "./chromium.ts";
import { type Served, servePage } from "./served_page.ts";

export const XSS =
  `<script>globalThis.broken=1</script><img src=x onerror="globalThis.broken=1">"'\`{{TOKEN}}`;
const executable = chromiumPath();

export const points = (page: Page, series: string) =>
  page.locator(`[data-series=${series}] .plot`).evaluate((e) =>
    Number((e as HTMLElement).dataset.points ?? 0)
  );

/** One of the controls behind a chart's "More". */
export async function fromMenu(chart: Locator, name: string): Promise<void> {
  await chart.getByRole("button", { name: /^More of / }).click();
  await chart.getByRole("button", { name }).click();
}

/**
 * Waits for so many ticks of a live stream, which the page gets, too. @param path of the stream,
 * such as `/api/live`
 */
export function ticks(page: Page, path: string, count: number): Promise<void> {
  return page.evaluate(({ path, count }) =>
    new Promise<void>((resolve) => {
      const stream = new EventSource(`${path}?since=0`);
      let heard = 0;
      stream.addEventListener("tick", () => {
        if (++heard < count) return;
        stream.close();
        resolve();
      });
    }), { path, count });
}

export interface Scene {
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
export function inBrowser(name: string, work: (scene: Scene) => Promise<void>): void {
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

export function liveRun(core: PlayedEngine): RunRow {
  const live = core.addExecuting("live-run", { tags: ["demo"], gpusRequested: 1 });
  core.registry.gpus.claim(live.runId, [0]);
  for (let i = 0; i < 40; i++) core.addEpisode(live.runId, 10 + i);
  return live;
}

export const fail = (core: PlayedEngine, { runId }: RunRow) =>
  core.ended(runId, { code: 1, stderrTail: ["Traceback", XSS] });

/** A run whose worker says what would harm a page that takes it for markup. */
export async function hostileRun(core: PlayedEngine): Promise<RunRow> {
  const hostile = core.addExecuting(XSS, { tags: [XSS] });
  core.registry.update(hostile.runId, { configJson: JSON.stringify({ [XSS]: XSS }) });
  core.addEpisode(hostile.runId, 5, () => JSON.stringify({ ansi: XSS }));
  await Deno.writeTextFile(
    core.logFile(hostile, "stdout"),
    `${XSS}\n\x1b[31mred\x1b[0m\n{"type":"step","reward":1}\n`,
  );
  return hostile;
}

/**
 * The page of a real daemon in a real browser: what it loads, a table of 10 000 runs, zooms into a
 * chart of five million steps, and the cost of showing 20 runs that stream. Times in a browser vary
 * with the machine; processor time varies less.
 */
import type { Browser } from "npm:playwright-core@1.65.1";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Layout } from "../../src/base/layout.ts";
import { configOf } from "../../tests/harness/configs.ts";
import { TestDaemon } from "../../tests/harness/daemon.ts";
import { until } from "../../tests/harness/wait.ts";
import { chromiumPath, launch, openPage } from "../../tests/ui/chromium.ts";
import { median, pause, processFigures, quantile } from "../measure.ts";
import { LONG_RUN, prepareState } from "../page_state.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { lab } from "./page_lab.ts";

const LAB = { runs: 1000, metrics: 1000, dense: 20, updates: 256 };
const SMOKE_LAB = { runs: 12, metrics: 24, dense: 20, updates: 16 };
const QUICK_LAB = { runs: 200, metrics: 200, dense: 20, updates: 64 };
const WORKER = new URL("../worker.awk", import.meta.url).pathname;

export async function page(options: BenchOptions): Promise<Figure[]> {
  const executable = chromiumPath();
  if (executable === undefined) {
    console.error("page: SKIPPED, there is no Chromium on this machine");
    return [];
  }
  const size = options.pick(
    { runs: 10_000, steps: 5_000_000, frames: 300, streaming: 20, zooms: 20, seconds: 20 },
    { runs: 2000, steps: 200_000, frames: 60, streaming: 20, zooms: 6, seconds: 5 },
    { runs: 200, steps: 20_000, frames: 5, streaming: 2, zooms: 1, seconds: 1 },
  );
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  try {
    await prepareState(new Layout(stateDir), size);
    await using daemon = await TestDaemon.start({
      stateDir,
      args: ["--log-level", "warn", "--max-runs", "64"],
    });
    const browser = await launch(executable);
    try {
      const base = `http://${daemon.http}`;
      const figures = [
        ...await loading(browser, base),
        ...await table(browser, base, size),
        ...await zooms(browser, base, size),
      ];
      for (let i = 0; i < size.streaming; i++) {
        const command = ["/usr/bin/awk", "-v", "n=100000000", "-v", "pace=0.2", "-f", WORKER];
        await daemon.client.unary(TrainerService.method.submitRun, {
          configJson: configOf({ name: `streams-${i}`, command }),
        });
      }
      return [
        ...figures,
        ...await streaming(browser, base, size),
        ...await lab(browser, options.pick(LAB, QUICK_LAB, SMOKE_LAB), size.zooms),
      ];
    } finally {
      await browser.close();
    }
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
}

/** Cold: nothing of the page is in the browser. */
async function loading(browser: Browser, base: string): Promise<Figure[]> {
  const paints: number[] = [];
  const shown: number[] = [];
  let bytes = 0;
  let requests = 0;
  for (let round = 0; round < 5; round++) {
    const { page, close } = await openPage(browser);
    await page.goto(base);
    await page.locator("td.name").first().waitFor();
    const loaded = await page.evaluate(() => {
      const entries = performance.getEntries() as PerformanceResourceTiming[];
      const files = entries.filter((e) =>
        e.entryType === "navigation" || (e.entryType === "resource" && e.name.includes("/assets/"))
      );
      return {
        paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
        bytes: files.reduce((n, e) => n + e.transferSize, 0),
        requests: files.length,
        now: performance.now(),
      };
    });
    paints.push(loaded.paint);
    shown.push(loaded.now);
    ({ bytes, requests } = loaded);
    await close();
  }
  const detail = {
    worst: Math.max(...paints),
    "rows of the table after (ms)": median(shown),
    files: requests,
  };
  return [
    { part: "page", name: "first paint, cold", value: median(paints), unit: "ms", detail },
    { part: "page", name: "sent for it, headers included", value: bytes / 1000, unit: "kB" },
  ];
}

/** Seconds of processor time so far: of the processes that run pages, and of all the browser's. */
async function browserSeconds(browser: Browser): Promise<{ pages: number; all: number }> {
  const cdp = await browser.newBrowserCDPSession();
  try {
    const { processInfo } = await cdp.send("SystemInfo.getProcessInfo");
    const seconds = (type?: string) =>
      processInfo.filter((p) => type === undefined || p.type === type)
        .reduce((sum, p) => sum + (processFigures(p.id)?.cpuSeconds ?? 0), 0);
    return { pages: seconds("renderer"), all: seconds() };
  } finally {
    await cdp.detach();
  }
}

async function table(
  browser: Browser,
  base: string,
  size: { runs: number; frames: number },
): Promise<Figure[]> {
  const { page, close } = await openPage(browser);
  await page.goto(base);
  await page.getByText(`${(size.runs + 1).toLocaleString("en-US")} runs`, { exact: true })
    .waitFor();
  const before = await browserSeconds(browser);
  const frames = await page.evaluate(async (count) => {
    const element = document.querySelector(".table-scroll")!;
    const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
    const times = [];
    let last = await frame();
    for (let i = 0; i < count; i++) {
      element.scrollTop += 400;
      const at = await frame();
      times.push(at - last);
      last = at;
    }
    return times;
  }, size.frames);
  const after = await browserSeconds(browser);
  const perFrame = (seconds: number) => seconds / size.frames * 1000;
  const inDocument = await page.evaluate(() => document.getElementsByTagName("*").length);
  const sorted = await page.evaluate(async () => {
    const start = performance.now();
    const first = () => document.querySelector("td.name")!.textContent;
    const old = first();
    document.querySelector<HTMLButtonElement>("th.wide button")!.click();
    while (first() === old) await new Promise((resolve) => requestAnimationFrame(resolve));
    return performance.now() - start;
  });
  await close();
  const name = `${size.runs} runs, 11 rows a frame`;
  return [
    {
      ...{
        part: "page",
        name: `scroll ${name}: processor`,
        value: perFrame(after.pages - before.pages),
        unit: "ms/frame",
      },
      detail: {
        "all processes of the browser": perFrame(after.all - before.all),
        "frame p50": median(frames),
        "frame p99": quantile(frames, 0.99),
        "worst frame": Math.max(...frames),
        "elements in the document": inDocument,
      },
    },
    {
      part: "page",
      name: `sort ${size.runs} runs by name, to the frame`,
      value: sorted,
      unit: "ms",
    },
  ];
}

async function zooms(
  browser: Browser,
  base: string,
  size: { steps: number; zooms: number },
): Promise<Figure[]> {
  const { page, close } = await openPage(browser);
  await page.goto(`${base}/runs/${LONG_RUN}`);
  await page.locator("[data-series=reward] canvas").waitFor();
  const times = await page.evaluate(async (count) => {
    const chart = document.querySelector("[data-series=reward]")!;
    const plot = chart.querySelector<HTMLElement>(".plot")!;
    const button = (says: string) =>
      chart.querySelector<HTMLButtonElement>(`button[aria-label^="${says}"]`)!;
    // A chart makes its menu when the button for it gets the focus.
    button("More of").dispatchEvent(new Event("focus"));
    const [zoomIn, all] = [button("Zoom into"), button("Show all")];
    const result: { redraw: number; request: number }[] = [];
    for (let i = 0; i < count; i++) {
      // Zooms in step by step, then out.
      const clicked = i % 6 === 5 ? all : zoomIn;
      performance.clearResourceTimings();
      const before = plot.dataset.points;
      const start = performance.now();
      clicked.click();
      while (plot.dataset.points === before) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
      const redraw = performance.now() - start;
      const request = (performance.getEntriesByType("resource") as PerformanceResourceTiming[])
        .filter((e) => e.name.includes("buckets=")).at(-1)?.duration ?? NaN;
      result.push({ redraw, request });
    }
    return result;
  }, size.zooms);
  await close();
  const redraws = times.map((t) => t.redraw);
  const requests = times.map((t) => t.request);
  return [{
    ...{
      part: "page",
      name: `zoom in ${size.steps} steps: click to redraw`,
      value: median(redraws),
      unit: "ms",
    },
    detail: {
      worst: Math.max(...redraws),
      "request p50": median(requests),
      "request worst": Math.max(...requests),
      zooms: times.length,
    },
  }];
}

async function streaming(
  browser: Browser,
  base: string,
  { streaming: count, seconds }: { streaming: number; seconds: number },
): Promise<Figure[]> {
  const running = async () =>
    (await (await fetch(`${base}/api/runs?state=EXECUTING&limit=100`)).json()).runs as {
      run_id: string;
    }[];
  await until(async () => (await running()).length === count, { what: "all runs to stream" });
  const ids = (await running()).map((r) => r.run_id);
  const views: [string, string, string][] = [
    ["the table", "/", "td.name"],
    ["one run", `/runs/${ids[0]}`, "[data-series=reward] canvas"],
    ["12 compared", `/compare?runs=${ids.slice(0, 12).join(",")}`, "[data-series=reward] canvas"],
  ];
  const figures: Figure[] = [];
  for (const [what, path, ready] of views) {
    const { page, close } = await openPage(browser);
    await page.goto(base + path);
    await page.locator(ready).first().waitFor();
    await pause(2000);
    const start = performance.now();
    const before = await browserSeconds(browser);
    await pause(seconds * 1000);
    const after = await browserSeconds(browser);
    const share = (busy: number) => busy / ((performance.now() - start) / 1000) * 100;
    figures.push({
      ...{
        part: "page",
        name: `${count} runs stream, ${what}`,
        value: share(after.pages - before.pages),
      },
      ...{
        unit: "% of a core",
        detail: { "all processes of the browser": share(after.all - before.all) },
      },
    });
    await close();
  }
  return figures;
}

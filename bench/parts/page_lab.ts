/**
 * A thousand runs of a thousand metrics in one comparison, in a real browser: time until it is
 * painted, and zoomed.
 */
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { Layout } from "../../src/base/layout.ts";
import { TestDaemon } from "../../tests/harness/daemon.ts";
import { openPage } from "../../tests/ui/chromium.ts";
import { labRun, type LabSize, prepareLab } from "../lab_state.ts";
import { median } from "../measure.ts";
import type { Figure } from "../report.ts";

export async function lab(browser: Browser, size: LabSize, zooms: number): Promise<Figure[]> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  try {
    prepareLab(new Layout(stateDir), size);
    await using daemon = await TestDaemon.start({ stateDir, args: ["--log-level", "warn"] });
    const runs = Array.from({ length: size.runs }, (_, i) => labRun(i)).join();
    return await measureLab(browser, `http://${daemon.http}/compare?runs=${runs}`, size, zooms);
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
}

export async function measureLab(
  browser: Browser,
  address: string,
  size: LabSize,
  zooms: number,
): Promise<Figure[]> {
  const name = `${size.runs} runs × ${size.metrics} metrics`;
  const open = async (address: string) => {
    const { page, close } = await openPage(browser);
    await watchTasks(page);
    await page.goto(address, { waitUntil: "commit" });
    const found = await painted(page);
    await close();
    return found;
  };
  const opened: Awaited<ReturnType<typeof open>>[] = [];
  for (let round = 0; round < 3; round++) opened.push(await open(address));
  const of = (key: keyof typeof opened[number]) => median(opened.map((o) => o[key]));
  const group = await open(`${address}&group=tags&band=iqm`);
  const { page, close } = await openPage(browser);
  await watchTasks(page);
  await page.goto(address);
  await painted(page);
  const zoomed = await page.evaluate(zoomRepeatedly, zooms);
  await close();
  const hovered = await hover(browser, address);
  const whole = await open(new URL("/?pane=both", address).href);
  return [
    {
      ...{
        part: "page",
        name: "hover of 40 lines: frames",
        value: hovered.perSecond,
        unit: "frames/s",
      },
      detail: {
        "frames beyond 20 ms": hovered.late,
        "of": hovered.frames,
        "longest ms": hovered.longest,
        "processor ms a move": hovered.cpuMs,
        "of it script": hovered.scriptMs,
        "layouts a move": hovered.layouts,
      },
    },
    {
      ...{
        part: "page",
        name: `list of ${size.runs} runs beside charts: first paint`,
        value: whole.firstPaint,
        unit: "ms",
      },
      detail: {
        "all charts in sight": whole.painted,
        requests: whole.requests,
        kB: whole.bytes / 1000,
      },
    },
    {
      ...{
        part: "page",
        name: `${name}: all charts in sight painted`,
        value: of("painted"),
        unit: "ms",
      },
      detail: {
        "first paint": of("firstPaint"),
        "first chart": of("firstChart"),
        "charts in sight": of("charts"),
        requests: of("requests"),
        kB: of("bytes") / 1000,
        "longest task": of("longest"),
        "blocked beyond 50 ms a task": of("blocked"),
      },
    },
    {
      ...{
        part: "page",
        name: `${name}: as one group, interquartile mean`,
        value: group.painted,
        unit: "ms",
      },
      detail: { "longest task": group.longest, "blocked beyond 50 ms a task": group.blocked },
    },
    {
      ...{
        part: "page",
        name: `${name}: zoom, click to redraw`,
        value: median(zoomed.map((z) => z.redraw)),
        unit: "ms",
      },
      detail: {
        worst: Math.max(...zoomed.map((z) => z.redraw)),
        "finer points after": median(zoomed.map((z) => z.finer)),
        "longest task": Math.max(...zoomed.map((z) => z.longest)),
      },
    },
  ];
}

/**
 * Moves the pointer over a chart of 40 lines for two seconds, once in each frame, and times the
 * frames.
 */
async function hover(browser: Browser, address: string) {
  const few = new URL(address);
  few.searchParams.set("runs", few.searchParams.get("runs")!.split(",").slice(0, 40).join());
  const { page, close } = await openPage(browser);
  await watchTasks(page);
  await page.goto(few.href);
  await painted(page);
  const box = (await page.locator("[data-series] .u-over").first().boundingBox())!;
  // A chart answers to the pointer only where the browser has it.
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  // Of the page's thread, which does not depend on what else the machine does.
  const figures = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return ["TaskDuration", "ScriptDuration", "LayoutCount"].map((name) =>
      metrics.find((m) => m.name === name)?.value ?? NaN
    );
  };
  const before = await figures();
  const found = await page.evaluate(async () => {
    const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
    const over = document.querySelector<HTMLElement>("[data-series] .u-over")!;
    const { left, top, width, height } = over.getBoundingClientRect();
    const times: number[] = [];
    let before = await frame();
    const start = before;
    for (let i = 0; before - start < 2000; i++) {
      const [clientX, clientY] = [
        left + width * ((i * 7) % 100) / 100,
        top + height * (0.3 + 0.4 * Math.sin(i / 9)),
      ];
      over.dispatchEvent(
        new MouseEvent("mousemove", { clientX, clientY, movementX: 1, bubbles: true }),
      );
      const now = await frame();
      times.push(now - before);
      before = now;
    }
    return { times, tip: document.querySelectorAll(".tip .value").length };
  });
  const [busy, script, layouts] = (await figures()).map((after, i) => after - before[i]!);
  await close();
  if (found.tip === 0) throw new Error("the pointer met no line");
  const { times } = found;
  return {
    perSecond: 1000 * times.length / times.reduce((a, b) => a + b, 0),
    late: times.filter((ms) => ms > 20).length,
    frames: times.length,
    longest: Math.max(...times),
    cpuMs: 1000 * busy! / times.length,
    scriptMs: 1000 * script! / times.length,
    layouts: layouts! / times.length,
  };
}

/** Records the page's long tasks from its beginning. */
async function watchTasks(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const tasks: number[] = [];
    Object.assign(globalThis, { tasks });
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration)))
      .observe({
        type: "longtask",
        buffered: true,
      });
  });
}

/** Waits for lines in every chart that is in sight. */
async function painted(page: Page) {
  return await page.evaluate(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    let firstChart = 0;
    let charts = 0;
    for (;;) {
      await frame();
      let [inSight, drawn] = [0, 0];
      // In the order of the page, because visiting all thousand would be measured, too.
      for (const element of document.querySelectorAll("[data-series]")) {
        const { top, bottom, height } = element.getBoundingClientRect();
        if (top >= innerHeight) break;
        if (height === 0 || bottom <= 0) continue;
        inSight++;
        if (element.querySelector("canvas") !== null) drawn++;
      }
      if (drawn > 0) firstChart ||= performance.now();
      if (drawn > 0 && drawn === inSight) {
        charts = drawn;
        break;
      }
    }
    // What was drawn in this frame is on the screen in the next.
    await frame();
    const now = performance.now();
    const tasks = (globalThis as unknown as { tasks: number[] }).tasks;
    const entries = (performance.getEntries() as PerformanceResourceTiming[])
      .filter((e) => e.entryType === "navigation" || e.entryType === "resource");
    return {
      ...{ painted: now, firstChart, charts, requests: entries.length },
      firstPaint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
      bytes: entries.reduce((n, e) => n + e.transferSize, 0),
      longest: Math.max(0, ...tasks),
      blocked: tasks.reduce((n, t) => n + Math.max(0, t - 50), 0),
    };
  });
}

async function zoomRepeatedly(count: number) {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const { tasks } = globalThis as unknown as { tasks: number[] };
  const chart = [...document.querySelectorAll<HTMLElement>("[data-series]")]
    .find((e) => e.dataset.series!.includes("/") && e.querySelector(".plot canvas") !== null)!;
  const plot = chart.querySelector<HTMLElement>(".plot")!;
  chart.scrollIntoView({ block: "center" });
  const button = (says: string) =>
    chart.querySelector<HTMLButtonElement>(`button[aria-label^="${says}"]`)!;
  // A chart makes its menu when the button for it gets the focus.
  button("More of").dispatchEvent(new Event("focus"));
  const [zoomIn, all] = [button("Zoom into"), button("Show all")];
  const result: { redraw: number; finer: number; longest: number }[] = [];
  for (let i = 0; i < count; i++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    tasks.length = 0;
    const before = plot.dataset.view;
    const start = performance.now();
    (i % 3 === 2 ? all : zoomIn).click();
    while (plot.dataset.view === before) await frame();
    await frame();
    const redraw = performance.now() - start;
    while (chart.hasAttribute("aria-busy")) await frame();
    await frame();
    result.push({ redraw, finer: performance.now() - start, longest: Math.max(0, ...tasks) });
  }
  return result;
}

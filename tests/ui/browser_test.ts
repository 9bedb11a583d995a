/** The page in a real browser: the list of runs, a run, what a person does with them. */
import assert from "node:assert/strict";
import { LONG_TESTS } from "../harness/long.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { fail, hostileRun, inBrowser, liveRun, ticks, XSS } from "./in_browser.ts";

inBrowser("the table of runs moves while a run runs", async ({ core, page, base }) => {
  const live = liveRun(core);
  const failed = fail(core, core.addExecuting("failed-run"));
  await page.goto(`${base}/?pane=list`);
  const row = page.locator("tr", { hasText: "live-run" });
  await row.waitFor();
  await page.locator(".slot.used").waitFor();
  const steps = async () => (await row.locator("td").nth(8).textContent()) ?? "";
  const before = await steps();
  assert.match(before, /\d/);
  core.addEpisode(live.runId, 100);
  await until(async () => await steps() !== before, { what: "the steps to move", state: steps });
  core.retry(failed.runId);
  await page.locator("tr", { hasText: "failed-run" }).locator(".chip[data-state=INIT]").waitFor();
  fail(core, core.begun(failed.runId));
  await page.locator("button.chip[data-state=FAULTED]").click();
  await until(async () => await page.locator("td.name").count() === 1, {
    what: "the filter to apply",
  });
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

inBrowser(
  "what is redrawn each second keeps focus, a held press and selected text",
  async ({ core, page, base }) => {
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
    assert.ok(
      await slot.evaluate((e) => document.activeElement === e),
      "the slot still has the focus",
    );
    await page.mouse.up();
    await page.locator(".run-title h1").waitFor();

    const last = page.locator(".lifelist li").last();
    await last.locator(".chip").evaluate((e) => getSelection()!.selectAllChildren(e));
    const took = await last.locator(".took").textContent();
    await until(async () => await last.locator(".took").textContent() !== took, {
      what: "the time to go on",
    });
    assert.equal(await page.evaluate(() => getSelection()!.toString()), "Running");
  },
);

inBrowser("Enter confirms a name, and never a destruction", async ({ core, page, base }) => {
  const ended = fail(core, core.addExecuting("first-name"));
  await page.goto(`${base}/runs/${ended.runId}`);
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  // The old name is selected: typing replaces it.
  await page.keyboard.type("second-name");
  await page.keyboard.press("Enter");
  await page.locator(".run-title h1", { hasText: "second-name" }).waitFor();
  const dialog = page.getByRole("dialog");
  const live = core.addExecuting("live");
  await page.goto(`${base}/runs/${live.runId}`);
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await dialog.getByRole("textbox").fill("a.ckpt");
  await page.keyboard.press("Enter");
  assert.equal(await dialog.getByRole("textbox").inputValue(), "a.ckpt");
  await page.keyboard.press("Escape");
  await page.locator("#views summary").click();
  await page.getByRole("button", { name: "Save this view" }).click();
  await page.keyboard.type("my view");
  await page.keyboard.press("Enter");
  await until(
    () => page.evaluate(() => localStorage.getItem("mosaic-views")?.includes("my view")),
    {
      what: "the view to be saved",
    },
  );
  const rows = core.list({}, { limit: 9 }).runs.map((
    { row },
  ) => [row.name, row.state, row.attempt]);
  assert.deepEqual(rows.sort(), [["live", "EXECUTING", 1], ["second-name", "FAULTED", 1]]);
});

inBrowser(
  "figures of metrics are columns: sorted, filtered, in the address",
  async ({ core, page, base }) => {
    for (const length of [5, 9, 7]) {
      core.addEpisode(
        core.addExecuting(`long-${length}`).runId,
        length,
      );
    }
    core.addExecuting("said-nothing");
    await page.goto(base);
    await page.getByRole("button", { name: "Columns …" }).click();
    await page.getByLabel("Find a column").fill("episode_length");
    await page.getByRole("checkbox", { name: "episode_length metric", exact: true }).check();
    await page.keyboard.press("Escape");
    await page.locator("th[data-column='metric.episode_length']").waitFor();
    const order = () => page.locator("td.name a").allTextContents();
    const sortBy = page.getByRole("button", { name: "episode_length", exact: true });
    await sortBy.click();
    const sorted = ["long-9", "long-7", "long-5", "said-nothing"];
    await until(async () => JSON.stringify(await order()) === JSON.stringify(sorted), {
      what: "the order",
      state: order,
    });
    await page.getByLabel("Filter by name, id or conditions").fill(
      "metric.episode_length>=7 and (state=EXECUTING or name ~ x)",
    );
    await until(async () => (await order()).length === 2, {
      what: "the condition to apply",
      state: order,
    });
    await page.reload();
    await until(async () => (await order()).join() === "long-9,long-7", {
      what: "the same view",
      state: order,
    });
    await page.getByLabel("Filter by name, id or conditions").fill("loss>1");
    await page.getByText('no run has the parameter "loss"').waitFor();
    await page.getByLabel("Filter by name, id or conditions").fill("loss>");
    await page.getByText("where, at character 6: here is the end, and a value is expected")
      .waitFor();
    assert.deepEqual(await violations(page), []);
  },
);

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

inBrowser(
  "the table has groups that fold; parameters are drawn against results",
  async ({ core, page, base }) => {
    core.addExecuting(`${"long-".repeat(20)}end-seed1`);
    const runs = ["a-seed1", "a-seed2", "b-seed1"].map((name) => core.addExecuting(name));
    for (const [i, { runId }] of runs.entries()) core.addEpisode(runId, 10 * (i + 1));
    await page.goto(`${base}/?group=name&pane=list`);
    const group = page.getByRole("button", { name: "a", exact: true });
    await group.waitFor();
    assert.equal(await page.locator("td.name a:visible").count(), 0);
    // A name that is too long gives way to the number of its runs, and loses its middle.
    const long = page.locator("tr.group", { hasText: "long-long" });
    const sight = await long.evaluate((row) => {
      const [button, tags] = [".link", ".tags"].map((of) => row.querySelector<HTMLElement>(of)!);
      const text = button!.querySelector(".ends-kept")!.lastElementChild!.firstChild as Text;
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
    await cells.locator(".chip[data-state=EXECUTING]:visible", { hasText: "Running" }).waitFor();
    core.registry.apply(runs[0]!.runId, { type: "exited_ok" });
    // A group tells of each of its runs.
    await cells.locator(".chip:visible", { hasText: /^1 Succeeded$/ }).waitFor();
    assert.equal(await cells.locator(".states").getAttribute("title"), "1 Running, 1 Succeeded");
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
      `${base}/compare?runs=${
        runs.map((r) => r.runId).join()
      }&px=metric.episode_length&py=metric.episode_reward:max`,
    );
    const plot = page.getByRole("region", { name: "Parameters and results", exact: true });
    await plot.getByRole("img", { name: "episode_reward, highest against episode_length: 3 runs" })
      .waitFor();
    assert.equal(await plot.locator("svg[role=img] circle").count(), 3);
    await page.getByLabel("Kind of plot").selectOption("lines");
    await until(async () => await plot.locator("polyline").count() === 3, {
      what: "a line of each run",
    });
    await plot.getByText("Table", { exact: true }).click();
    assert.match(await plot.locator("tbody tr").last().textContent() ?? "", /b-seed1.*30$/);
    assert.deepEqual(await violations(page), []);
  },
);

inBrowser(
  "an alert is told where one looks, and stays on its run and in the list",
  async ({ core, page, base }) => {
    const [before, now] = ["alerted", "alerts-now"].map((name) => core.addExecuting(name));
    const alert = (run: { runId: string }, then: string) =>
      core.registry.appendEvent(run.runId, "alert", {
        alert: "loss nan",
        what: "loss is NaN",
        then,
      });
    alert(before!, "tell");
    await page.goto(base);
    const marked = (name: string) => page.locator("tr", { hasText: name }).locator(".tag.alert");
    await marked("alerted").waitFor();
    assert.equal(await marked("alerted").getAttribute("title"), "loss is NaN (rule loss nan)");
    assert.equal(await marked("alerts-now").count(), 0);
    alert(now!, "pause");
    await page.locator("#notices", { hasText: "alerts-now: loss is NaN; the run was paused" })
      .waitFor();
    await marked("alerts-now").waitFor();
    assert.deepEqual(await violations(page), []);
    await page.goto(`${base}/runs/${now!.runId}`);
    const told = page.getByRole("region", { name: "Alerts" });
    await told.getByText("loss is NaN; the run was paused (rule loss nan)").waitFor();
    alert(now!, "cancel");
    await told.getByText("loss is NaN; the run was cancelled (rule loss nan)").waitFor();
    assert.deepEqual(await violations(page), []);
  },
);

inBrowser(
  "a failed run shows its parameters, and the end of its stderr without a scroll",
  async ({ core, page, base }) => {
    const parameters = Object.entries({ lr: 0.003, "optim.name": "adam", sizes: [64, 64] })
      .map(([name, value]) => ({ name, source: "config", value: JSON.stringify(value) }));
    const run = core.begun(core.add("failed-run", {}, parameters).runId);
    const stderrTail = [
      ...Array.from({ length: 40 }, (_, i) => `  frame ${i}`),
      "RuntimeError: the last line",
    ];
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

inBrowser(
  "the log of an earlier attempt can be chosen, and stays when the newest one writes",
  async ({ core, page, base }) => {
    const { runId } = core.addExecuting("twice");
    const path = core.logFile(core.registry.require(runId), "stdout");
    await Deno.writeTextFile(path, "first\n");
    core.cancel(runId);
    core.retry(runId);
    core.registry.apply(runId, { type: "spawned" });
    const second = path.replace(/\.stdout\.log$/, ".2.stdout.log");
    await Deno.writeTextFile(second, "second\n");
    await page.goto(`${base}/runs/${runId}#logs`);
    await page.getByRole("tab", { name: "Logs" }).click();
    const shows = (text: string) =>
      until(
        async () => (await page.locator(".log-lines > div").allTextContents()).join() === text,
        { what: text },
      );
    await shows("second");
    const attempts = page.getByLabel("Attempt", { exact: true });
    assert.equal(await attempts.inputValue(), "2");
    await attempts.selectOption("1");
    await shows("first");
    await Deno.writeTextFile(second, "third\n", { append: true });
    await ticks(page, `/api/runs/${runId}/live`, 4);
    await shows("first");
    await attempts.selectOption("2");
    await shows("second,third");
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
      // Colours are all that differs in the dark; those of what has not changed were checked in the
      // view before.
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
    await page.goto(`${base}/?draw=none`);
    await page.getByText("Nothing is drawn").waitFor();
    await check("nothing is drawn");
    await page.goto(`${base}/wall`);
    await page.locator("main h1").waitFor();
    await check("wall");
    await page.goto(`${base}/runs/${hostile.runId}`);
    for (
      const tab of [
        "Overview",
        "Steps",
        "Episodes",
        "Frames",
        "Logs",
        "Config",
        "Events",
        "Artifacts",
      ]
    ) {
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

inBrowser(
  "by keyboard: every control is reached, shows its focus, and works",
  async ({ core, page, base }) => {
    liveRun(core);
    fail(core, core.addExecuting("failed-run"));
    const hostile = await hostileRun(core);
    // So many that most charts are far below what is in sight.
    const metrics = JSON.stringify(
      Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`metric_${i}`, i])),
    );
    for (let i = 1; i <= 2; i++) {
      core.addEpisode(
        hostile.runId,
        1,
        () => JSON.stringify({ ansi: XSS }),
        1_000_000 + i,
        metrics,
      );
    }
    await page.goto(base);
    await page.locator("td.name").nth(2).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("failed");
    await until(async () => await page.locator("td.name").count() === 1, {
      what: "the filter to apply",
    });
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".run-title h1").waitFor();
    await page.goto(`${base}/runs/${hostile.runId}`);
    // What comes later than the page itself.
    for (const late of ["[data-series=metric_19]", ".live-tiles [data-of]"]) {
      await page.locator(
        late,
      ).waitFor();
    }
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
          e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true }) &&
          !(e as HTMLButtonElement).disabled &&
          e.dataset.focus !== "shown"
        ).map((e) =>
          `${e.dataset.focus ?? "not reached"}: ${
            e.getAttribute("aria-label") ?? e.outerHTML.slice(0, 120)
          }`
        );
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
  },
);

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
    for (const name of ["one", "two"]) {
      await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    }
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

/**
 * More than the page reads with one request; a power of ten, so that the last one has the last
 * name.
 */
const MANY = LONG_TESTS ? 10_000 : 1000;

inBrowser(
  "thousands of runs: few rows in the document, filter and sort at once",
  async ({ core, page, base }) => {
    core.addMany("many-", MANY);
    const last = `many-${MANY - 1}`;
    // Eleven runs: that of this name, and those with one digit more.
    const someName = last.slice(0, -1);
    await page.goto(base);
    await page.getByText(`${MANY.toLocaleString("en")} runs`, { exact: true }).waitFor();
    assert.ok(await page.locator("table.runs tbody tr").count() < 120);
    await page.getByLabel("Filter by name, id or conditions").fill(last);
    await page.getByRole("link", { name: last, exact: true }).waitFor();
    await page.getByLabel("Filter by name, id or conditions").fill(someName);
    await page.getByText(`11 of ${MANY.toLocaleString("en")} runs`).waitFor();
    await page.getByRole("checkbox", { name: "Select all shown runs" }).check();
    await page.getByText("11 selected").waitFor();
    await page.locator(".selection button[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel it" }).click();
    await page.getByText("Cancel: 11 runs.").waitFor();
    assert.equal(
      core.registry.list({ states: ["CANCELLED"], nameContains: someName }, { limit: 100 }).runs
        .length,
      11,
    );
    await page.getByLabel("Filter by name, id or conditions").fill("many-");
    await page.getByRole("button", { name: "Name", exact: true }).click();
    await page.getByRole("link", { name: "many-0", exact: true }).waitFor();
    await page.getByRole("region", { name: "Table of runs" }).focus();
    await page.keyboard.press("End");
    await page.getByRole("link", { name: last, exact: true }).waitFor();
  },
);

inBrowser(
  "states are words; failure texts have colours, not escapes; logs open where there is something to read",
  async ({ core, page, base }) => {
    const failed = core.addExecuting("broken");
    await Deno.writeTextFile(core.logFile(failed, "stderr"), "Traceback: it is here\n");
    core.ended(failed.runId, { code: 1, stderrTail: ["\x1b[31mRuntimeError\x1b[0m: no memory"] });
    core.ended(core.addExecuting("fine").runId, { code: 0 });
    core.add("waits");
    await page.goto(base);
    await page.locator("td.name").nth(2).waitFor();
    const words = await page.locator("tbody .chip").allTextContents();
    assert.deepEqual(words.filter((word) => word !== "").sort(), ["Failed", "Queued", "Succeeded"]);
    await page.locator("tr", { hasText: "broken" }).getByText("Failed, Exit code 1").waitFor();
    await page.locator("button.chip", { hasText: "Failed" }).click();
    await until(() => page.url().includes("state=FAULTED"), {
      what: "the state's own name in the address",
    });
    await page.goto(`${base}/runs/${failed.runId}`);
    const told = page.locator(".failure pre");
    await told.getByText("RuntimeError").waitFor();
    assert.equal(await told.textContent(), "RuntimeError: no memory");
    assert.equal(await told.locator(".fg1").textContent(), "RuntimeError");
    await page.locator("#tab-logs").click();
    await page.locator(".log-lines", { hasText: "Traceback: it is here" }).waitFor();
    assert.equal(
      await page.getByRole("button", { name: "All" }).getAttribute("aria-pressed"),
      "true",
    );
    assert.equal(await page.locator(".from-stderr").count(), 1);
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download" }).click();
    assert.equal(
      await Deno.readTextFile(await (await download).path()),
      "Traceback: it is here\n",
    );
    // Who chooses the empty one gets it.
    await page.getByRole("button", { name: "stdout" }).click();
    await page.getByText("Nothing on stdout so far.").waitFor();
  },
);

inBrowser(
  "the list stays where it is: while it loads, when rows are selected, and for who comes back",
  async ({ core, page, base }) => {
    core.addMany("many-", 130);
    liveRun(core);
    await page.addInitScript(() => {
      Object.assign(globalThis, { shifted: 0 });
      new PerformanceObserver((list) => {
        for (
          const entry of list
            .getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[]
        ) {
          if (!entry.hadRecentInput) {
            (globalThis as unknown as { shifted: number }).shifted += entry.value;
          }
        }
      }).observe({ type: "layout-shift", buffered: true });
    });
    const shifted = () =>
      page.evaluate(() => (globalThis as unknown as { shifted: number }).shifted);
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 850 });
      await page.goto(base);
      await page.getByText("131 runs").waitFor({ state: "attached" });
      await ticks(page, "/api/live", 2);
      assert.ok(await shifted() <= 0.05, `${await shifted()} at ${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 850 });
    const row = page.locator("tr", { hasText: "many-120" });
    const top = () => row.evaluate((e) => e.getBoundingClientRect().top);
    const before = await top();
    await row.getByRole("checkbox").check();
    await page.getByText("1 selected").waitFor();
    assert.equal(await top(), before, "a selected row stays under the pointer");
    const table = page.getByRole("region", { name: "Table of runs" });
    await table.evaluate((e) => e.scrollTop = 2000);
    await page.locator("tr", { hasText: "many-70" }).getByRole("link").click();
    await page.locator(".run-title h1").waitFor();
    await page.goBack();
    await page.getByText("1 selected").waitFor();
    await until(() => table.evaluate((e) => e.scrollTop > 1500), { what: "the place in the list" });
  },
);

inBrowser(
  "an outage says what it is, and a view that it met is not blank afterwards",
  async ({ core, page, base, stop, start }) => {
    const { runId } = liveRun(core);
    await page.goto(`${base}/runs/${runId}`);
    await page.locator("#connection[data-state=live]").waitFor();
    await stop();
    await page.locator("#connection[data-state=down]").waitFor();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.locator(".notice", { hasText: "The daemon cannot be reached" }).waitFor();
    await page.locator("#tab-config").click();
    start();
    await page.locator("#panel-config pre.json", { hasText: "entry_point" }).waitFor();
    assert.equal(await page.getByText("Failed to fetch").count(), 0);
  },
);

/** The views of sweeps in a real browser. */
import assert from "node:assert/strict";
import { checked } from "../../src/sweeps/spec.ts";
import { gridAxis, partFrom, stopOf, wholeAxis } from "../../src/sweeps/words.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { inBrowser, points, XSS } from "./in_browser.ts";

inBrowser(
  "sweeps: the list, the best so far, points over seeds, what was stopped, pause and resume",
  async (scene) => {
    const { core, page, base } = scene;
    const spec = checked({
      name: "ppo",
      config: {
        run_name: "x",
        entry_point: "/bin/true",
        arguments: ["{lr}", "{seed}", XSS],
        environment: {},
        resources: { gpus: { requested: 0 } },
        artifacts: {},
      },
      pass: "templates",
      parts: [
        partFrom({
          axes: [gridAxis(`lr=1e-3,3e-4,${XSS.replaceAll(",", "")}`)],
          space: [],
          seeds: wholeAxis("seed", "1..3"),
        }),
      ],
      budget: {},
      max_parallel: 8,
      metric: { name: "score", goal: "max" },
      stop: stopOf("asha:max=90,min=10", {}),
    });
    await page.goto(`${base}/sweeps`);
    await page.getByText("No sweeps yet.").waitFor();
    await core.beginSweep(JSON.stringify(spec), "", false, "uid:1");
    await page.getByRole("link", { name: "ppo" }).click();
    await page.getByText(/running: 8 of 9 made/).waitFor();
    const made = await core.getSweep("ppo", 100);
    const runs = made.detail!.trials.toReversed().map(({ run_id }) => run_id!);
    const tell = (runId: string, score: number) => {
      core.begun(runId);
      const told = [{ score: 0, step: 5 }, { score, step: 10 }];
      const events = told.map((values) => ({
        kind: "metrics",
        tsNs: "0",
        dataJson: JSON.stringify(values),
      }));
      core.telemetry.append(runId, 1, [], [], events);
    };
    for (const [i, score] of [5, 7, 9].entries()) {
      tell(runs[i]!, score);
      await until(async () => {
        const { detail } = await core.getSweep("ppo", 0);
        return core.runs.eventsSince(0, { kinds: ["rung"], limit: 99 }).length > i &&
          detail!.best?.value === score;
      }, { what: `report ${i}` });
      core.ended(runs[i]!);
    }
    await page.getByText("9 in trial 2").waitFor();
    await page.getByRole("heading", { name: "Best so far" }).waitFor();
    await page.getByRole("heading", { name: "Parameters and results" }).waitFor();
    await page.getByText("3 points have a result; importance needs 16.").waitFor();
    await until(async () => await points(page, "score") > 1, {
      what: "the curve of the best points",
    });
    tell(runs[3]!, 1);
    const stopped = page.getByRole("region", { name: "Stopped early" });
    await until(() => core.runs.require(runs[3]!).cancelReason === "pruned", {
      what: "the trial to be stopped",
    });
    await stopped.getByText("rung 1 of 2: 1 is 4th of 4, 1 goes on").waitFor();
    await page.setViewportSize({ width: 1400, height: 900 });
    const best = await page.getByRole("heading", { name: "Best so far" }).boundingBox();
    assert.ok(best!.x < 100, `a sweep fills a wide page: its charts begin at ${best!.x} px`);
    assert.deepEqual(
      await page.getByRole("region", { name: "Points" }).locator("tbody tr").count(),
      3,
    );
    const saved = page.waitForEvent("download");
    await page.getByRole("link", { name: "Parquet" }).first().click();
    assert.equal((await saved).suggestedFilename(), "ppo-points.parquet");
    await page.getByText("A statement to publish").click();
    await page.getByText(/^Preliminary: the sweep has not ended\. Of 3 points, lr=/).waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText(/paused: 9 of 9 made/).waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await page.getByRole("button", { name: "More seeds for the best …" }).click();
    assert.equal(await page.getByLabel("Seeds, such as 4..8 or 11,12").inputValue(), "4..6");
    await page.getByLabel("Seeds, such as 4..8 or 11,12").fill("4..5");
    await page.keyboard.press("Enter");
    await page.getByText(/11 of 11 made/).waitFor();
    await page.locator("#connection[data-state=live]").waitFor();
    assert.deepEqual(await violations(page), []);

    // The same plots for any runs; a range of an axis chooses some of them.
    await page.goto(`${base}/?runs=${runs.slice(0, 4).join(",")}&plot=lines&py=metric.score`);
    const plot = page.getByRole("region", { name: "Parameters and results" });
    const axis = plot.locator(".grasp").last();
    await axis.scrollIntoViewIfNeeded();
    const { x, y, width, height } = (await axis.boundingBox())!;
    await page.mouse.move(x + width / 2, y + 1);
    await page.mouse.down();
    await page.mouse.move(x + width / 2, y + height / 2, { steps: 3 });
    await page.mouse.up();
    await plot.getByText("3 of 4 runs").waitFor();
    assert.equal(await plot.locator(".left-out").count(), 1);
    assert.match(
      await plot.getByRole("link", { name: "Compare them" }).getAttribute("href") ?? "",
      /^\/\?runs=/,
    );
    await page.reload();
    await plot.getByText("3 of 4 runs").waitFor();
    await plot.getByRole("button", { name: "Leave out score: " }).click();
    await plot.getByRole("combobox", { name: "Choose a range" }).selectOption({ label: "score" });
    await page.getByLabel("Range", { exact: true }).fill("8 10");
    await page.keyboard.press("Enter");
    await plot.getByText("score: 8 to 10").waitFor();
    await plot.getByText("1 of 4 runs").waitFor();
    assert.deepEqual(await violations(page), []);
    const kind = plot.getByRole("combobox", { name: "Kind of plot" });
    await kind.selectOption("best");
    await plot.getByRole("img", { name: "Best so far: from 5 to 9, 2 improvements over 4 runs" })
      .waitFor();
    await kind.selectOption("importance");
    await plot.getByText("3 points have a result; importance needs 16.").waitFor();
    assert.equal(await page.evaluate("globalThis.broken"), undefined);
  },
);

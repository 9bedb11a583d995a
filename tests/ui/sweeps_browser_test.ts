/** The views of sweeps in a real browser. */
import assert from "node:assert/strict";
import { checked } from "../../src/sweeps/spec.ts";
import { gridAxis, partFrom, stopOf, wholeAxis } from "../../src/sweeps/words.ts";
import { until } from "../harness/wait.ts";
import { violations } from "./axe.ts";
import { inBrowser, XSS } from "./in_browser.ts";

inBrowser("sweeps: the list, the best so far, points over seeds, what was stopped, pause and resume", async (scene) => {
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
    core.telemetry.append(runId, 1, [], [], [
      { kind: "metrics", tsNs: "0", dataJson: JSON.stringify({ score, step: 10 }) },
    ]);
  };
  for (const [i, score] of [5, 7, 9].entries()) {
    tell(runs[i]!, score);
    await until(async () => {
      const { detail } = await core.getSweep("ppo", 0);
      return core.runs.eventsSince(0, { kinds: ["rung"], limit: 99 }).length > i && detail!.best?.value === score;
    }, { what: `report ${i}` });
    core.ended(runs[i]!);
  }
  await page.getByText("9 in trial 2").waitFor();
  await page.getByRole("heading", { name: "Best so far" }).waitFor();
  await page.getByRole("heading", { name: "Parameters and results" }).waitFor();
  tell(runs[3]!, 1);
  const stopped = page.getByRole("region", { name: "Stopped early" });
  await until(() => core.runs.require(runs[3]!).cancelReason === "pruned", { what: "the trial to be stopped" });
  await stopped.getByText("rung 1 of 2: 1 is 4th of 4, 1 goes on").waitFor();
  await page.setViewportSize({ width: 1400, height: 900 });
  const best = await page.getByRole("heading", { name: "Best so far" }).boundingBox();
  assert.ok(best!.x < 100, `a sweep fills a wide page: its charts begin at ${best!.x} px`);
  const points = page.getByRole("region", { name: "Points" });
  assert.deepEqual(await points.locator("tbody tr").count(), 3);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(/paused: 9 of 9 made/).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.locator("#connection[data-state=live]").waitFor();
  assert.deepEqual(await violations(page), []);
  assert.equal(await page.evaluate("globalThis.broken"), undefined);
});

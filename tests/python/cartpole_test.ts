import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { records } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { pythonTest } from "./python.ts";

const EPISODES = 70;
const example = new URL("../../examples/cartpole_numpy.py", import.meta.url).pathname;

pythonTest("a Gymnasium worker: runs to its end, every step and episode is there, and it learned", [
  "gymnasium",
  "numpy",
], async (python) => {
  await using daemon = await TestDaemon.start();
  const client = new MosaicClient(daemon.target, { deadlineMs: 60_000 });
  try {
    const { runId } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({
        name: "cartpole",
        command: [python, example, "--episodes", String(EPISODES)],
      }),
    });
    const run = await until(async () => {
      const now = await client.unary(Mosaic.method.getRun, { run: runId });
      return now.outcome === "" ? undefined : now;
    }, { what: "the run to end", timeoutMs: 240_000 });
    assert.equal(run.state, "TERMINATED", `${run.reason}\n${run.stderrTail.join("\n")}`);
    assert.equal(run.telemetry?.malformedLines, 0n);

    const episodes = await records({ client }, runId, "episodes");
    assert.deepEqual(
      episodes.map((e) => e.episode_index),
      Array.from({ length: EPISODES }, (_, i) => i),
    );
    const steps = await records({ client }, runId, "steps");
    assert.equal(steps.length, episodes.reduce((sum, e) => sum + Number(e.steps), 0));
    assert.equal(BigInt(steps.length), run.telemetry?.steps);
    // Each episode's steps are numbered from 0, and their rewards are its total.
    let row = 0;
    for (const episode of episodes) {
      let total = 0;
      for (let i = 0; i < Number(episode.steps); i++, row++) {
        assert.deepEqual([steps[row]!.seq, steps[row]!.episode_index, steps[row]!.step_index], [
          row + 1,
          episode.episode_index,
          i,
        ]);
        total += Number(steps[row]!.reward);
      }
      assert.equal(total, episode.total_reward);
    }

    const mean = (part: Record<string, unknown>[]) =>
      part.reduce((sum, e) => sum + Number(e.total_reward), 0) / part.length;
    const [first, last] = [mean(episodes.slice(0, 20)), mean(episodes.slice(-20))];
    assert.ok(last > 2 * first, `mean reward went from ${first} to ${last}`);
  } finally {
    client.close();
  }
});

import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { type RunEpisode, type RunStep, TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { pythonTest, runPython } from "./python.ts";

const GRPC = ["grpc", "grpc_tools"];
const here = new URL(".", import.meta.url).pathname;

pythonTest("wire: the original GUI's calls, by Python grpcio", GRPC, async (python) => {
  await using daemon = await TestDaemon.start();
  const worker = new URL("../harness/worker.sh", import.meta.url).pathname;
  assert.match(await runPython(python, "original_gui.py", [daemon.address, worker]), /^ok$/m);
});

pythonTest("wire: the original proxy's calls, by Python grpcio", GRPC, async (python) => {
  await using daemon = await TestDaemon.start();
  const client = new MosaicClient(daemon.target, { deadlineMs: 60_000 });
  try {
    const { runId } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({
        name: "original-proxy",
        command: [python, `${here}original_proxy.py`, daemon.address],
      }),
    });
    const run = await until(async () => {
      const now = await client.unary(Mosaic.method.getRun, { run: runId });
      return now.outcome === "" ? undefined : now;
    }, { what: "the run to end", timeoutMs: 180_000 });
    assert.equal(run.state, "TERMINATED", `${run.reason}\n${run.stderrTail.join("\n")}`);
    assert.equal(run.capabilities?.workerKind, "cleanrl");

    const steps: RunStep[] = [];
    for await (const step of client.stream(TrainerService.method.streamRunSteps, { runId })) {
      steps.push(step);
      if (steps.length === 401) break;
    }
    steps.forEach((step, i) => assert.equal(step.seqId, BigInt(i + 1)));
    for (const [i, step] of steps.slice(0, 400).entries()) {
      assert.deepEqual([step.stepIndex, step.agentId], [
        BigInt(i >> 1),
        i % 2 === 0 ? "predator" : "prey",
      ]);
      assert.equal(JSON.parse(step.observationJson), "näher");
      assert.deepEqual([step.policyLabel, step.backend, step.workerId, step.episodeSeed], [
        "p",
        "b",
        "w-1",
        7n,
      ]);
      assert.deepEqual([step.timestamp?.seconds, step.timestamp?.nanos], [1_700_000_000n, i >> 1]);
    }
    assert.equal(steps[400]!.renderPayloadJson.length, 48_000_002);

    const episodes: RunEpisode[] = [];
    for await (const episode of client.stream(TrainerService.method.streamRunEpisodes, { runId })) {
      episodes.push(episode);
      if (episodes.length === 9) break;
    }
    assert.deepEqual(episodes.map((e) => e.agentId).slice(0, 4), [
      "predator",
      "prey",
      "predator",
      "prey",
    ]);
    // What stood before the wrong record of a refused stream was stored.
    assert.equal(episodes[8]!.episodeIndex, 99n);
  } finally {
    client.close();
  }
});

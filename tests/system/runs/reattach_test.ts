import assert from "node:assert/strict";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { until } from "../../harness/wait.ts";

const RUNS = 12;

async function runsOf(daemon: TestDaemon): Promise<Map<string, { state: string; worker: bigint }>> {
  const { runs } = await daemon.client.unary(Mosaic.method.listRuns, { limit: 100 });
  return new Map(runs.map((run) => [run.runId, { state: run.state, worker: run.workerPid }]));
}

Deno.test("a daemon that was killed finds all of its runs again, with the workers that they had", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", String(RUNS)] });
  for (let i = 0; i < RUNS; i++) {
    const configJson = configOf({ command: ["/bin/sleep", "600"] });
    await daemon.client.unary(TrainerService.method.submitRun, { configJson });
  }
  const state = () => daemon.output().slice(-2000);
  await until(async () => {
    const runs = [...(await runsOf(daemon)).values()];
    return runs.length === RUNS && runs.every((run) => run.state === "READY" && run.worker > 0n);
  }, { what: "all runs to be READY", state });
  const before = await runsOf(daemon);
  await daemon.kill9();
  await daemon.restart();
  await until(async () => {
    const text = await (await fetch(`http://${daemon.http}/metrics`)).text();
    return text.includes(`\nmosaic_proxies_connected ${RUNS}\n`);
  }, { what: "all proxies to be connected again", state });
  assert.deepEqual(await runsOf(daemon), before);
});

Deno.test("a daemon at a Unix socket that was killed takes the socket over from its children, and finds its runs", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    await using daemon = await TestDaemon.start({ args: ["--listen", `unix:${directory}/m.sock`] });
    const state = () => daemon.output().slice(-2000);
    await daemon.client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command: ["/bin/sleep", "600"] }),
    });
    await until(async () => [...(await runsOf(daemon)).values()].every((run) => run.worker > 0n), {
      what: "the worker to run",
      state,
    });
    const before = await runsOf(daemon);
    await daemon.kill9();
    await daemon.restart();
    await until(async () => {
      const text = await (await fetch(`http://${daemon.http}/metrics`)).text();
      return text.includes("\nmosaic_proxies_connected 1\n");
    }, { what: "the proxy to be connected again", state });
    assert.deepEqual((await runsOf(daemon)).keys().toArray(), before.keys().toArray());
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

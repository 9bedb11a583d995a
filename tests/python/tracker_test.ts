import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { pythonTest } from "./python.ts";

const WORKER = new URL("tracker_worker.py", import.meta.url).pathname;

function hexOf(value: number): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

pythonTest(
  "an unchanged program's event file and Monitor table: each point once and bit for bit, proxy and daemon killed in between",
  [
    "tensorboardX",
    "tensorboard",
  ],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const cwd = Deno.makeTempDirSync();
    const points = async (run: string) => Number((await getRun(daemon, run)).telemetry?.metrics);
    // tensorboardX writes in a thread of its own, and what is flushed lags a little.
    const stored = (run: string, count: number) =>
      until(async () => await points(run) >= count, { what: `${count} points`, timeoutMs: 90_000 });
    const killProxy = async (run: string) => {
      const proxy = processRef(Number((await getRun(daemon, run)).proxyPid));
      if (proxy !== undefined) signalProcess(proxy, "SIGKILL");
    };
    try {
      const worker = { script: python, arguments: [WORKER], cwd, use_grpc: false };
      const run = await submit(daemon, configOf({ command: [python], metadata: { worker } }));
      await stored(run, 900);
      const { state, telemetry } = await getRun(daemon, run);
      assert.equal(state, "EXECUTING");
      assert.ok(telemetry!.toldStep > 400n * 128n, String(telemetry!.toldStep));

      // While the next part is being read and stored.
      Deno.writeTextFileSync(`${cwd}/part0`, "");
      await stored(run, 1001);
      await killProxy(run);
      await daemon.kill9();
      await daemon.restart();
      await stored(run, 1900);
      await killProxy(run);
      Deno.writeTextFileSync(`${cwd}/part1`, "");
      await stored(run, 2900);
      await daemon.kill9();
      Deno.writeTextFileSync(`${cwd}/part2`, "");
      await until(() => readTextIfThere(`${cwd}/points.json`), {
        what: "the worker's end",
        timeoutMs: 60_000,
      });
      await daemon.restart();
      const ended = await untilState(daemon, run, "TERMINATED");

      const expected = JSON.parse(Deno.readTextFileSync(`${cwd}/points.json`)) as Record<
        string,
        [number, string][]
      >;
      const read: Record<string, [number, string][]> = {};
      for (const { name, step, value } of await records(daemon, run, "metrics")) {
        (read[name as string] ??= []).push([step as number, hexOf(value as number)]);
      }
      assert.deepEqual(read, expected);
      assert.equal(ended.telemetry?.episodes, 1500n);

      const events = await records(daemon, run, "events");
      const payloads = (kind: string) =>
        events.filter((event) => event.event === kind).map(({ payload }) => payload);
      const values = { learning_rate: 0.00025, env_id: "CartPole-v1" };
      assert.deepEqual(payloads("parameters"), [{ source: "hparams", values }]);
      assert.deepEqual(
        payloads("source_problem").map((problem) => (problem as { problem: string }).problem),
        ["torn"],
      );
      assert.equal(payloads("source_observed").length, 2);
      const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
      assert.deepEqual(artifacts.map(({ path, kind }) => [path, kind]), [[
        `${cwd}/ppo.cleanrl_model`,
        "checkpoint",
      ]]);
    } finally {
      Deno.removeSync(cwd, { recursive: true });
    }
  },
);

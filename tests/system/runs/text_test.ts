import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";

const TABLES = new URL("../../readers/formats/fixtures/sb3.stdout.txt", import.meta.url).pathname;

/**
 * CleanRL's lines and Stable-Baselines3's tables; the second table is cut in two until the file $0
 * exists.
 */
const WORKER = `i=0
while [ $i -lt 300 ]; do echo "global_step=$((i * 16)), episodic_return=[$i.]"; i=$((i + 1)); done
head -n 20 "$1"
while [ ! -e "$0" ]; do sleep 0.05; done
tail -n +21 "$1"`;

async function seriesOf(
  daemon: TestDaemon,
  run: string,
): Promise<Map<string, [points: number, last: number]>> {
  const { series } = await daemon.client.unary(Mosaic.method.listSeries, { run });
  return new Map(series.map(({ name, points, last }) => [name, [Number(points), last ?? NaN]]));
}

Deno.test("printed text of an unchanged program is metrics and episodes; the proxy killed within a table, each is stored once", async () => {
  await using daemon = await TestDaemon.start();
  const go = `${daemon.stateDir}/go`;
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", WORKER, go, TABLES] }));
  const state = () => daemon.output().slice(-2000);
  await until(async () => (await seriesOf(daemon, run)).get("rollout/ep_len_mean")?.[0] === 1, {
    what: "the first table",
    state,
  });
  const { state: phase, proxyPid } = await getRun(daemon, run);
  assert.equal(phase, "EXECUTING");
  signalProcess(processRef(Number(proxyPid))!, "SIGKILL");
  Deno.writeTextFileSync(go, "");
  const ended = await untilState(daemon, run, "TERMINATED");
  assert.equal(ended.telemetry?.episodes, 300n);
  const series = await seriesOf(daemon, run);
  assert.deepEqual(series.get("episode_reward"), [300, 299]);
  assert.deepEqual(series.get("episodic_return"), [300, 299]);
  assert.deepEqual(series.get("rollout/ep_len_mean"), [4, 24.2]);
  assert.deepEqual(series.get("train/value_loss"), [3, 74.8]);
});

Deno.test("an episode without a reward has none: it counts in no mean, and the run says how many there were", async () => {
  await using daemon = await TestDaemon.start();
  const script = `echo '{"type":"episode","steps":3}'; echo '{"type":"episode","r":4,"l":2}'`;
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
  const { telemetry } = await untilState(daemon, run, "TERMINATED");
  assert.equal(telemetry?.episodes, 2n);
  assert.equal(telemetry?.meanReward100, 4);
  assert.deepEqual(telemetry?.violations, { "store: episode without a reward": 1n });
});

Deno.test("printed text is not read where the config says so", async () => {
  await using daemon = await TestDaemon.start();
  const config = JSON.parse(
    configOf({ command: ["/bin/sh", "-c", 'echo step=1 loss=2; echo "{\\"loss\\": 1}"'] }),
  );
  config.metadata = { ...config.metadata, telemetry: { text: ["json"] } };
  const run = await submit(daemon, JSON.stringify(config));
  await untilState(daemon, run, "TERMINATED");
  assert.deepEqual(await seriesOf(daemon, run), new Map([["loss", [1, 1]]]));
});

Deno.test("a bar on standard error and a parameter say how far a run is, also to the next daemon", async () => {
  await using daemon = await TestDaemon.start();
  const wait = `while [ ! -e "$0" ]; do sleep 0.05; done`;
  const bar =
    `printf '\\r 25%%|##   | 5/20 [00:01<00:03, 5it/s]' >&2; printf '\\r 50%%|####  | 10/20 [00:02<00:02, 5it/s]' >&2`;
  const go = `${daemon.stateDir}/go`;
  const drawn = await submit(
    daemon,
    configOf({ command: ["/bin/sh", "-c", `${bar}; printf '\\r' >&2; ${wait}`, go] }),
  );
  const counted = await submit(
    daemon,
    configOf({
      command: [
        "/bin/sh",
        "-c",
        `echo step=100 loss=2; ${wait}`,
        go,
        "--total-timesteps",
        "400",
        "--env.max-steps",
        "7",
      ],
    }),
  );
  await until(async () => (await getRun(daemon, drawn)).progress === 0.5, { what: "the bar" });
  await until(async () => (await getRun(daemon, counted)).telemetry?.toldStep === 100n, {
    what: "the step",
  });
  assert.equal((await getRun(daemon, counted)).maxSteps, 400n);
  assert.deepEqual(await seriesOf(daemon, drawn), new Map());
  await daemon.restart();
  await until(async () => (await getRun(daemon, drawn)).progress === 0.5, {
    what: "the bar, after a restart",
  });
  Deno.writeTextFileSync(go, "");
  const { progress } = await untilState(daemon, drawn, "TERMINATED");
  assert.equal(progress, undefined);
});

/** Runs that share a card, on a recorded machine. */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, type TestConfig } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { FakeGpuTools, recorded } from "../harness/fake_gpu_tools.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const [FIRST] = recorded("h200-busy", "cards")!.split("\n");
const UUID = FIRST!.split(", ")[1]!;
/** The recorded card, with so many MiB in use. */
const card = (usedMb: number) => FIRST!.replace("130013, 100", `${usedMb}, 40`) + "\n";
const processes = (...its: [pid: number, mb: number][]) =>
  its.map(([pid, mb]) => `${UUID}, ${pid}, /usr/bin/python3, ${mb}\n`).join("");

const sleeper = (memoryMb: number, metadata: TestConfig["metadata"] = {}) =>
  configOf({
    command: ["/bin/sh", "-c", "env; exec sleep 300"],
    gpus: { requested: 1, mandatory: true, memory_mb: memoryMb },
    metadata,
  });

Deno.test("two runs share a card; a third waits while another program fills it, and one that takes more than it declared ends alone", async () => {
  const colleague = new Deno.Command("sleep", { args: ["300"] }).spawn();
  try {
    using fake = new FakeGpuTools("h200-busy");
    fake.becomes("h200-busy", { cards: card(4), processes: "" });
    await using daemon = await TestDaemon.start({ gpus: "auto", env: fake.env });
    const says = (run: string, what: RegExp) =>
      until(async () => what.test((await getRun(daemon, run)).waitingFor), {
        what: `the run to wait for ${what}`,
        state: async () => (await getRun(daemon, run)).waitingFor,
      });
    const pidOf = async (run: string) =>
      Number(
        await until(async () => (await getRun(daemon, run)).workerPid, {
          what: "the worker's pid",
        }),
      );
    const first = await submit(daemon, sleeper(60_000));
    const pid1 = await pidOf(first);
    const second = await submit(
      daemon,
      sleeper(60_000, { alerts: [{ when: "gpu_memory", value: 100, then: "cancel" }] }),
    );
    const pid2 = await pidOf(second);
    const { directory } = await getRun(daemon, second);
    const log = await until(() => {
      const text = Deno.readTextFileSync(`${directory}/logs/worker.stdout.log`);
      return text.includes("MOSAIC_RUN_ID") ? text : undefined;
    }, { what: "the worker's environment" });
    assert.match(log, new RegExp(`^CUDA_VISIBLE_DEVICES=${UUID}$`, "m"));
    assert.match(log, /^MOSAIC_GPU_MEMORY_MB=60000$/m);
    assert.match(log, /^XLA_PYTHON_CLIENT_MEM_FRACTION=0\.417$/m);
    assert.match(log, /^CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=60000M$/m);

    // Too large for what is left, and one that wants the card alone.
    const large = await submit(daemon, sleeper(30_000));
    await says(
      large,
      /^29\.3 GiB of a GPU \(0 free, 0\.42 with \S+ \w+, 0\.42 with \S+ \w+; gpu 0 has 23\.2 GiB left\)$/,
    );
    await assert.rejects(
      submit(daemon, sleeper(200_000)),
      /memory_mb is 200000, and the largest GPU .* 143771 MiB/,
    );

    // A foreign program takes what no run has declared.
    fake.becomes("h200-busy", {
      cards: card(70_000),
      processes: processes([pid1, 50_000], [pid2, 10_000], [colleague.pid, 10_000]),
    });
    // The driver's last answer holds for some seconds.
    await says(large, new RegExp(`gpu 0: pid ${colleague.pid} of`));
    await daemon.client.unary(Mosaic.method.cancelRun, { run: large });
    const small = await submit(daemon, sleeper(8000));
    await says(small, new RegExp(`gpu 0: pid ${colleague.pid} of \\S+, python3, 9.8 GiB\\)$`));
    const { gpus } = await daemon.client.unary(Mosaic.method.getHost, { freshGpus: true });
    assert.deepEqual(
      gpus[0]!.shares.map(({ runId, memoryMb, usedMb }) => [runId, memoryMb, usedMb]),
      [
        [first, 60_000, 50_000],
        [second, 60_000, 10_000],
      ],
    );
    assert.match(gpus[0]!.others, new RegExp(`^pid ${colleague.pid} of`));

    // It leaves, and the second run takes more than it has declared.
    fake.becomes("h200-busy", {
      cards: card(120_000),
      processes: processes([pid1, 50_000], [pid2, 70_000]),
    });
    await pidOf(small);
    assert.deepEqual((await getRun(daemon, small)).gpuSlots, [0]);
    const ended = await untilState(daemon, second, "CANCELLED");
    assert.match(ended.reason, /^alert: the run uses 117 % \(68\.4 GiB\) of the GPU memory/);
    const peak = await until(async () => (await getRun(daemon, first)).gpuPeakMb, {
      what: "the first run's peak",
    });
    assert.equal(peak, 50_000);
    assert.equal((await getRun(daemon, first)).workerPid, BigInt(pid1));
    assert.deepEqual((await getRun(daemon, first)).gpuSlots, [0]);
  } finally {
    colleague.kill();
    await colleague.status;
  }
});

/** GPUs as a daemon sees them, on recorded machines. */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { FakeGpuTools, recorded } from "../harness/fake_gpu_tools.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const gpus = (requested: number) => ({ requested, mandatory: true });

const slotsOf = async (daemon: TestDaemon) =>
  (await daemon.client.unary(Mosaic.method.getHost, {})).gpus.map(({ slot }) => slot).join(" ");

Deno.test("a driver that comes after the daemon is seen, one lost card costs no other, and only visible cards are offered", async () => {
  using fake = new FakeGpuTools("no-driver");
  await using daemon = await TestDaemon.start({
    gpus: "auto",
    env: { ...fake.env, CUDA_VISIBLE_DEVICES: "2,4" },
  });
  assert.equal(await slotsOf(daemon), "");
  assert.match(daemon.output(), /couldn't communicate with the NVIDIA driver/);
  const config = configOf({ command: ["/bin/true"], gpus: gpus(1) });
  await assert.rejects(submit(daemon, config), /this host has 0 \(NVIDIA-SMI has failed because/);
  fake.becomes("lost-one");
  await until(async () => await slotsOf(daemon) === "2 4", {
    what: "the slots",
    state: () => slotsOf(daemon),
  });
  await untilState(daemon, await submit(daemon, config), "TERMINATED");
  assert.match(daemon.output(), /GPU3: 0000:5F:00\.0: Unknown Error/);
  assert.match(
    (await daemon.client.unary(Mosaic.method.getHost, {})).gpuProblem,
    /GPU3: 0000:5F:00\.0: Unknown Error/,
  );
});

Deno.test("a card that another program uses is given to no run, which says whose it is, and starts when it is free", async () => {
  const colleague = new Deno.Command("sleep", { args: ["300"] }).spawn();
  try {
    const [first] = recorded("h200-busy", "cards")!.split("\n");
    const uuid = first!.split(", ")[1]!;
    using fake = new FakeGpuTools("h200-busy");
    fake.becomes("h200-busy", {
      cards: `${first}\n`,
      processes: `${uuid}, ${colleague.pid}, /usr/bin/python3, 130004\n`,
    });
    await using daemon = await TestDaemon.start({ gpus: "auto", env: fake.env });
    const run = await submit(
      daemon,
      configOf({ command: ["/bin/sh", "-c", "env"], gpus: gpus(1) }),
    );
    const said = new RegExp(
      `^1 GPU \\(0 free; gpu 0: pid ${colleague.pid} of \\S+, python3, 127 GiB\\)$`,
    );
    await until(async () => said.test((await getRun(daemon, run)).waitingFor), {
      what: "the run to say who has the card",
      state: async () => (await getRun(daemon, run)).waitingFor,
    });
    fake.becomes("h200-busy", { cards: first!.replace("130013, 100", "4, 0") });
    const { directory } = await untilState(daemon, run, "TERMINATED");
    const log = Deno.readTextFileSync(`${directory}/logs/worker.stdout.log`);
    assert.match(log, new RegExp(`^CUDA_VISIBLE_DEVICES=${uuid}$`, "m"));
    assert.match(log, /^CUDA_DEVICE_ORDER=PCI_BUS_ID$/m);
    assert.match(log, /^MOSAIC_GPU_SLOTS=0$/m);
  } finally {
    colleague.kill();
    await colleague.status;
  }
});

/** GPUs as a daemon sees them, on recorded machines. */
import assert from "node:assert/strict";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { FakeGpuTools, recorded } from "../harness/fake_gpu_tools.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const gpus = (requested: number) => ({ requested, mandatory: true });

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
    const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", "env"], gpus: gpus(1) }));
    const said = new RegExp(`^1 GPU \\(0 free; gpu 0: pid ${colleague.pid} of \\S+, python3, 127 GiB\\)$`);
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

/** The pool on recorded machines that change while a daemon runs. */
import assert from "node:assert/strict";
import { createLogger } from "../../../src/base/log.ts";
import { GpuPool } from "../../../src/dispatch/gpus/gpu_pool.ts";
import { parseGpuOption, visibleOf } from "../../../src/os/gpus/gpu_option.ts";
import { FakeGpuTools, recorded } from "../../harness/fake_gpu_tools.ts";
import { newRun, runId, withRegistry } from "../../registry/fixture.ts";

type Stage = Parameters<Parameters<typeof withRegistry>[0]>[0];

interface Scene extends Pick<Stage, "registry"> {
  fake: FakeGpuTools;
  pool: GpuPool;
  said: string[];
  wakes: () => number;
  slots: () => string;
}

function withPool(
  machine: string,
  gpus: string,
  work: (scene: Scene) => Promise<void>,
  limitMs?: number,
): Promise<void> {
  return withRegistry(async ({ registry }) => {
    using fake = new FakeGpuTools(machine);
    const said: string[] = [];
    let wakes = 0;
    const log = createLogger({ sinks: [(line) => void said.push(line)] });
    const pool = new GpuPool({
      option: parseGpuOption(gpus),
      visible: visibleOf({}),
      tools: fake.tools(limitMs),
      log,
    });
    await pool.begin();
    pool.enter(registry, () => wakes++);
    const slots = () =>
      registry.gpus.slots().map(({ slot, runId }) => runId === null ? `${slot}` : `${slot}*`).join(
        " ",
      );
    await work({ registry, fake, pool, said, wakes: () => wakes, slots });
    await pool.close();
  });
}

Deno.test("a card that is lost and comes back: its slot goes and returns, and a run that has it keeps it", () =>
  withPool("a100x4", "auto", async ({ registry, fake, pool, said, wakes, slots }) => {
    assert.equal(slots(), "0 1 2 3");
    registry.insert(newRun(1));
    registry.gpus.claim(runId(1), [1]);
    const rows = recorded("a100x4", "cards")!.split("\n");
    // The driver numbers the others anew.
    const renumbered = (kept: string[]) =>
      kept.map((row, i) => row.replace(/^\d+/, `${i}`)).join("\n");
    fake.becomes("a100x4", { cards: renumbered([rows[0]!, rows[2]!]) });
    await pool.read(0);
    assert.equal(slots(), "0 1* 2");
    assert.match(
      pool.variablesOf({ runId: "none", gpuSlots: [2], gpuShare: null }).CUDA_VISIBLE_DEVICES!,
      /^GPU-cd9ee947/,
    );
    assert.match(
      pool.variablesOf({ runId: "none", gpuSlots: [1], gpuShare: null }).CUDA_VISIBLE_DEVICES!,
      /^GPU-2ac434d3/,
    );
    assert.match(
      said.join(""),
      /gpu 1 \(NVIDIA A100-SXM4-40GB, GPU-2ac434d3\S+","run_id":"01H\w+","problem":"","msg":"a GPU is lost"/,
    );
    fake.becomes("a100x4");
    await pool.read(0);
    assert.equal(slots(), "0 1* 2 3");
    assert.equal(wakes(), 2);
    const events = registry.eventsSince(0, { runId: runId(1), limit: 10 }).map((
      { kind, dataJson },
    ) => [kind, dataJson]);
    assert.deepEqual(events.filter(([kind]) => kind!.startsWith("gpu_")).map(([kind]) => kind), [
      "gpu_lost",
      "gpu_back",
    ]);
    assert.match(
      events.find(([kind]) => kind === "gpu_lost")![1]!,
      /"slot":1,"gpu":"gpu 1 \(NVIDIA A100/,
    );
  }));

Deno.test("a tool that fails as a whole says nothing of any card: the slots stay", () =>
  withPool("a100x4", "auto", async ({ fake, pool, said, slots }) => {
    for (const machine of ["driver-mismatch", "no-permission"]) {
      fake.becomes(machine);
      await pool.read(0);
      assert.equal(slots(), "0 1 2 3");
    }
    assert.match(pool.problem, /Insufficient Permissions/);
    assert.match(said.join(""), /Driver\/library version mismatch/);
    fake.becomes("none");
    await pool.read(0);
    assert.equal(slots(), "");
  }));

Deno.test("a driver that comes late: nothing is refused before it is known what is there", () =>
  withPool("no-driver", "auto", async ({ fake, pool, slots }) => {
    assert.deepEqual([slots(), pool.mostRequested], ["", 0]);
    assert.match(pool.problem, /couldn't communicate/);
    fake.becomes("a100x4");
    await pool.read(0);
    assert.deepEqual([slots(), pool.mostRequested, pool.problem], ["0 1 2 3", 4, ""]);
  }));

Deno.test("slots that were told are offered while no tool answers, and those of cards that are not there go then", () =>
  withPool(
    "no-driver",
    "GPU-fcf41002-68b6-5900-d7d1-74026173bb44,7",
    async ({ fake, pool, slots, said }) => {
      assert.equal(slots(), "0 7");
      assert.equal(
        pool.variablesOf({ runId: "none", gpuSlots: [0, 7], gpuShare: null }).CUDA_VISIBLE_DEVICES,
        "GPU-fcf41002-68b6-5900-d7d1-74026173bb44,7",
      );
      fake.becomes("a100x4");
      await pool.read(0);
      assert.equal(slots(), "0");
      assert.match(said.join(""), /7 is not there/);
    },
  ));

Deno.test("--gpus 0 asks no tool; a host without tools is asked once", async () => {
  await withPool("a100x4", "0", async ({ fake, pool, slots }) => {
    pool.watch();
    assert.deepEqual([slots(), fake.asked], ["", 0]);
    await Promise.resolve();
  });
  using fake = new FakeGpuTools("a100x4", []);
  let calls = 0;
  const { GpuTools } = await import("../../../src/os/gpus/gpu_tools.ts");
  const tools = new GpuTools(() =>
    Promise.resolve({ code: 127, stdout: "", stderr: `${calls++}` })
  );
  for (let i = 0; i < 3; i++) assert.equal((await tools.read()).tool, false);
  assert.equal(calls, 3);
  assert.equal(fake.asked, 0);
});

/** The pool on recorded machines that change while a daemon runs. */
import assert from "node:assert/strict";
import { createLogger } from "../../../src/base/log.ts";
import { type Card, UNSAID } from "../../../src/os/gpus/card.ts";
import { parseXids } from "../../../src/os/gpus/kernel_log.ts";
import type { GpuReading } from "../../../src/os/gpus/gpu_tools.ts";
import { CardErrors } from "../../../src/dispatch/gpus/card_errors.ts";
import { until } from "../../harness/wait.ts";
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
    using fake = new FakeGpuTools(machine, ["nvidia-smi", "dmesg", "journalctl"]);
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
  assert.equal(calls, 5);
  assert.equal(fake.asked, 0);
});

Deno.test("memory errors of a card and Xid in the kernel's log are events of the run that has it", () =>
  withPool("h200-busy", "auto", async ({ registry, fake, pool, said }) => {
    const rows = recorded("h200-busy", "cards")!;
    const old = "[  812.250310] NVRM: Xid (PCI:0000:18:00): 31, pid=77, name=python, MMU Fault\n";
    registry.insert(newRun(1));
    registry.gpus.claim(runId(1), [0]);
    const errors = () =>
      registry.eventsSince(0, { runId: runId(1), limit: 10 }).filter(({ kind }) =>
        kind === "gpu_error"
      ).map(({ dataJson }) => JSON.parse(dataJson));
    fake.becomes("h200-busy", { cards: rows.replace(/^(0.*:00\.0), 0,/, "$1, 2,"), dmesg: old });
    await pool.read(0);
    const gpu = "gpu 0 (NVIDIA H200, GPU-a44622e3-2296-6285-0a86-84d0f6c67900)";
    await until(() => errors().length === 1, { what: "the memory errors" });
    assert.deepEqual(errors(), [{ slot: 0, gpu, ecc_errors: 2 }]);
    assert.equal(pool.errorsOf(0), 2);
    assert.match(pool.healthOf(0), /^2 memory errors \(ECC\)/);
    assert.equal(pool.healthOf(2), "slowed down by heat");
    assert.ok(!said.some((line) => line.includes("Xid")));
  }));

Deno.test("Xid: what is new, of this card, and no cleanup after a killed program", async () => {
  const line = (at: number, bus: string, text: string) =>
    `[${at.toFixed(6).padStart(12)}] NVRM: Xid (PCI:${bus}): ${text}`;
  const log = [
    line(1843.3, "0000:18:00", "31, pid=1234, name=python, Ch 00000008, MMU Fault"),
    "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).",
    line(1850, "0000:3A:00", "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    line(1851, "0000:18:00", "45, pid=1234, name=python, Ch 00000008"),
    "[ 1852.000001] host kernel: NVRM: Xid (PCI:0000:18:00): 94, Contained: SM (0x1)",
  ].join("\n");
  assert.deepEqual(parseXids(log), [
    { bus: "0000:18:00", code: 31, text: "Ch 00000008, MMU Fault", at: 1843.3 },
    { bus: "0000:3a:00", code: 79, text: "GPU has fallen off the bus.", at: 1850 },
    { bus: "0000:18:00", code: 94, text: "Contained: SM (0x1)", at: 1852.000001 },
  ]);
  const card = { ...UNSAID, uuid: "GPU-1", bus: "0000:18:00", eccErrors: null } as Card;
  const [first = "", ...rest] = log.split("\n");
  const said: string[] = [];
  let printed: string | undefined = first;
  const errors = new CardErrors(
    {
      xids: () => Promise.resolve(printed === undefined ? "not permitted" : parseXids(printed)),
    },
    createLogger({ sinks: [(line) => void said.push(line)] }),
    0,
  );
  const look = () =>
    errors.look({ cards: [card] } as unknown as GpuReading, new AbortController().signal);
  assert.deepEqual(await look(), [], "it was there before this daemon");
  printed = [first, ...rest].join("\n");
  assert.deepEqual(await look(), [{
    uuid: "GPU-1",
    data: { xid: 94, text: "Contained: SM (0x1)" },
  }]);
  assert.deepEqual(await look(), []);
  assert.equal(errors.countOf("GPU-1"), 1);
  assert.equal(errors.healthOf("GPU-1", card), "Xid 94: Contained: SM (0x1)");
  printed = undefined;
  assert.deepEqual([await look(), await look()], [[], []]);
  assert.equal(said.filter((line) => line.includes("not permitted")).length, 1);
});

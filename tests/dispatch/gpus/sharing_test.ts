import assert from "node:assert/strict";
import { placed, type Room, shareVariables, wishOf } from "../../../src/dispatch/gpus/sharing.ts";
import { type Capacity, schedule, type WaitingRun } from "../../../src/dispatch/queue/scheduler.ts";

const room = (slot: number, left: number, memoryMb: number | null = 24_000): Room => ({
  slot,
  left,
  memoryMb,
});

Deno.test("sharing: a card with room, the fullest or the emptiest; memory as a part of the card's; all cards or none", () => {
  const rooms = [room(0, 1), room(1, 0.5), room(2, 0.25, 80_000), room(3, 0.9, null)];
  const slots = (...of: Parameters<typeof placed>) => placed(...of)?.map(({ slot }) => slot);
  for (
    const [wish, count, policy, expected] of [
      [{ part: 0.25 }, 1, "pack", [2]],
      [{ part: 0.3 }, 1, "pack", [1]],
      [{ part: 0.3 }, 1, "spread", [0]],
      [{ part: 0.3 }, 3, "pack", [1, 3, 0]],
      [{ part: 0.3 }, 4, "pack", undefined],
      // 20 000 MiB are a quarter of the large card; where the driver tells no memory, none can be
      // declared.
      [{ memoryMb: 20_000 }, 1, "pack", [2]],
      [{ memoryMb: 12_001 }, 2, "spread", [0, 2]],
      [{ memoryMb: 30_000 }, 1, "spread", undefined],
    ] as const
  ) {
    assert.deepEqual(
      slots(wish, count, rooms, policy),
      expected,
      JSON.stringify([wish, count, policy]),
    );
  }
  assert.deepEqual(placed({ memoryMb: 6000 }, 1, [room(0, 1)], "pack"), [{
    slot: 0,
    part: 0.25,
    memoryMb: 6000,
  }]);
  assert.deepEqual(placed({ part: 0.5 }, 1, [room(0, 1), room(3, 1, null)], "pack"), [{
    ...{ slot: 0, part: 0.5, memoryMb: 12_000 },
  }]);
  assert.equal(wishOf({ gpuShare: null, gpuMemoryMb: null }), undefined);
});

Deno.test("sharing: what a program is told of its share; MPS only of NVIDIA's cards, a part only if it was declared", () => {
  const nvidia = {
    uuid: "",
    vendor: "nvidia",
    card: 0,
    instance: null,
    name: "",
    memoryMb: 24_000,
  } as const;
  const share = { slot: 0, part: 0.25, memoryMb: 6000.5 };
  const common = { XLA_PYTHON_CLIENT_MEM_FRACTION: "0.250", TF_FORCE_GPU_ALLOW_GROWTH: "true" };
  const memory = { MOSAIC_GPU_MEMORY_MB: "6000" };
  assert.deepEqual(shareVariables([share, share], [nvidia, nvidia], true), {
    ...{ ...common, ...memory, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=6000M,1=6000M" },
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "25",
  });
  assert.deepEqual(shareVariables([share], [{ ...nvidia, vendor: "amd" }], true), {
    ...common,
    ...memory,
  });
  assert.deepEqual(shareVariables([{ ...share, memoryMb: null }], [nvidia], false), common);
  assert.deepEqual(shareVariables([], [nvidia], true), {});
});

const run = (runId: string, fields: Partial<WaitingRun>): WaitingRun => ({
  ...{
    runId,
    priority: 0,
    rank: 0,
    owner: "ada",
    createdAt: Number(runId.slice(1)),
    gpusRequested: 1,
  },
  ...{ gpusMandatory: true, heldSlots: [], notBefore: null, waitingFor: "" },
  ...fields,
});
const HOST: Capacity = {
  ...{
    now: 0,
    freeSlots: [1],
    holders: [],
    gpusOf: new Map(),
    maxGpusPerUser: Infinity,
    runsOf: new Map(),
  },
  ...{
    maxRunsPerUser: Infinity,
    used: [],
    asking: false,
    totalSlots: 2,
    slotsKnown: true,
    running: 0,
    maxRuns: 9,
  },
  ...{ starting: 0, maxStarting: 9, rooms: [room(0, 0.5)], memoryOf: () => 24_000 },
};
const outcome = (waiting: WaitingRun[], capacity: Partial<Capacity> = {}) => {
  const { start, queue } = schedule(waiting, { ...HOST, ...capacity });
  return [
    ...start.map(({ runId, slots, shares = [] }) =>
      `${runId}: ${[...slots, ...shares.map((s) => `${s.slot}*${s.part}`)]}`
    ),
    ...queue.map(({ runId, waitingFor }) => `${runId} waits for ${waitingFor}`),
  ];
};

Deno.test("sharing: runs of one pass do not get the same part twice, and the reason says what is missing", () => {
  const six = { share: { memoryMb: 6000 } };
  assert.deepEqual(outcome([run("r1", six), run("r2", six), run("r3", {}), run("r4", six)]), [
    ...["r1: 0*0.25", "r2: 0*0.25", "r3: 1"],
    "r4 waits for 5.9 GiB of a GPU (0 free; gpu 0 has 0 B left)",
  ]);
  // Whole cards are kept for a run that waits for several, and so are parts.
  assert.deepEqual(
    outcome([run("r1", { gpusRequested: 2 }), run("r2", six)], {
      holders: [{ runId: "A", name: "a", gpus: 0.5 }],
    }),
    [
      "r1 waits for 2 GPUs (1 free, 0.5 with a A)",
      "r2 waits for 5.9 GiB of a GPU (1 run before it wants GPUs too)",
    ],
  );
  assert.deepEqual(outcome([run("r1", { share: { part: 0.75 } })], { freeSlots: [] }), [
    "r1 waits for 75 % of a GPU (0 free; gpu 0 has 11.7 GiB left)",
  ]);
  assert.deepEqual(
    outcome([run("r1", six), run("r2", {})], {
      maxGpusPerUser: 1,
      gpusOf: new Map([["ada", 0.5]]),
    }),
    [
      "r1: 0*0.25",
      "r2 waits for 1 GPU (ada has 0.75, and may have 1 at a time)",
    ],
  );
  assert.deepEqual(
    outcome([run("r1", { share: { part: 0.6 } })], {
      maxGpusPerUser: 1,
      gpusOf: new Map([["ada", 0.5]]),
    }),
    [
      "r1 waits for 60 % of a GPU (ada has 0.5, and may have 1 at a time)",
    ],
  );
  assert.deepEqual(outcome([run("r1", { share: { part: 0.6 } })], { asking: true }), [
    "r1 waits for 60 % of a GPU (the driver is asked whether they are free)",
  ]);
  assert.deepEqual(
    outcome([run("r1", { gpusMandatory: false, share: { part: 0.6 } })], { freeSlots: [] }),
    ["r1: "],
  );
});

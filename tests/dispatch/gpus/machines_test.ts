/** The recorded machines of tests/fixtures/gpus: what is offered of each, and what is said. */
import assert from "node:assert/strict";
import { type Closeness, closest } from "../../../src/dispatch/gpus/closest.ts";
import { chosen, gpuVariables, slotsFor } from "../../../src/dispatch/gpus/devices.ts";
import { UNSAID } from "../../../src/os/gpus/card.ts";
import { type GpuOption, parseGpuOption, visibleOf } from "../../../src/os/gpus/gpu_option.ts";
import { FakeGpuTools, machines } from "../../harness/fake_gpu_tools.ts";

/** Tools of a machine, in the order in which they are asked. */
const TOOLS: Record<string, string> = {
  mi250: "rocm-smi",
  r9700: "rocm-smi",
  mi355: "amd-smi",
  "mi300-bare": "amd-smi",
  "mi100-pcie": "rocm-smi",
  "arc-b60": "xpu-smi",
  "apple-m3": "system_profiler",
};
const toolsOf = (machine: string) => [TOOLS[machine] ?? "nvidia-smi"];

const readings = new Map<string, ReturnType<typeof read>>();

/** Asked once for all tests: the machines do not change. */
function readingOf(machine: string): ReturnType<typeof read> {
  const known = readings.get(machine) ?? read(machine);
  readings.set(machine, known);
  return known;
}

async function read(machine: string) {
  using fake = new FakeGpuTools(machine, toolsOf(machine));
  const tools = fake.tools(machine === "hang" ? 2000 : undefined);
  return { ...await tools.read(), processes: await tools.processes() };
}

async function offer(
  machine: string,
  option: GpuOption = { type: "auto" },
  env: Record<string, string> = {},
) {
  const { cards, problem } = await readingOf(machine);
  const choice = chosen(cards, option, visibleOf(env));
  return {
    slots: [...slotsFor(choice.devices, []).keys()].join(" "),
    said: [problem, ...choice.problems].filter((text) => text !== "").join("; "),
  };
}

const EXPECTED: Record<string, [slots: string, said: RegExp]> = {
  "a100x4": ["0 1 2 3", /^$/],
  "h200-busy": ["0 1 2", /^$/],
  "a100-mig": ["1 100 101 102", /^$/],
  "a100-mig-450": ["100 101", /^$/],
  "gb10-unified": ["0", /^$/],
  "lost-one": [
    "0 1 2 4",
    /^Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error$/,
  ],
  "lost-row": ["1", /^GPU 0: GPU is lost$/],
  "unknown-error": ["0", /^$/],
  "driver-mismatch": [
    "",
    /^Failed to initialize NVML: Driver\/library version mismatch; NVML library version: 580.173$/,
  ],
  "no-driver": [
    "",
    /^NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver/,
  ],
  "no-permission": ["", /^Failed to initialize NVML: Insufficient Permissions$/],
  "none": ["", /^$/],
  "old-driver": ["0", /^$/],
  "hang": ["", /^nvidia-smi has not answered in 2 s$/],
  "mi250": ["0 1", /^$/],
  "r9700": ["0 1", /^$/],
  "mi355": ["0 1", /^$/],
  "mi300-bare": ["0", /^$/],
  "mi100-pcie": ["0 1 2 3", /^$/],
  "dgx-a100": ["0 1 2 3 4 5 6 7", /^$/],
  "mixed-pcie": ["0 1 2 3 4", /^$/],
  "arc-b60": ["0 1", /^$/],
  "apple-m3": ["0", /^$/],
};

Deno.test("recorded machines: what is offered of each, and what is said", async () => {
  assert.deepEqual(machines(), Object.keys(EXPECTED).sort());
  const found = await Promise.all(
    machines().map(async (machine) => [machine, await offer(machine)] as const),
  );
  for (const [machine, { slots, said }] of found) {
    assert.equal(slots, EXPECTED[machine]![0], machine);
    assert.match(said, EXPECTED[machine]![1], machine);
  }
});

Deno.test("recorded machines: figures; a field that has none hides no other", async () => {
  const figures = async (machine: string) =>
    (await readingOf(machine)).cards.map((
      c,
    ) => [c.memoryMb, c.usedMb, c.percent, c.watts, c.celsius]);
  assert.deepEqual(await figures("gb10-unified"), [[null, null, 37, 18.21, 48]]);
  assert.deepEqual(await figures("unknown-error"), [[11264, null, null, null, 0]]);
  assert.deepEqual(await figures("a100-mig-450"), [[40537, null, null, 42.51, 30]]);
  assert.deepEqual(await figures("old-driver"), [[11441, 0, 0, 29.47, 35]]);
  const [third] = (await readingOf("h200-busy")).cards.slice(2);
  assert.deepEqual([third!.slowedBy, third!.eccErrors, third!.bus], ["heat", 0, "0000:3a:00"]);
  const [old] = (await readingOf("old-driver")).cards;
  assert.deepEqual([old!.slowedBy, old!.eccErrors], ["", 0]);
  const [unsaid] = (await readingOf("unknown-error")).cards;
  assert.deepEqual([unsaid!.slowedBy, unsaid!.eccErrors], [null, null]);
  const [first, second] = (await readingOf("mi250")).cards;
  assert.deepEqual(first, {
    ...{
      vendor: "amd",
      index: 0,
      uuid: "0x719d230578348e8c",
      name: "AMD INSTINCT MI250 (MCM) OAM AC MBA",
    },
    ...UNSAID,
    ...{
      memoryMb: 65520,
      usedMb: 10960896 / (1 << 20),
      percent: 10,
      watts: 89,
      celsius: 32,
      instances: null,
    },
  });
  assert.deepEqual([second!.watts, second!.usedMb! > 32000], [null, true]);
});

Deno.test("recorded machines: who computes on which card", async () => {
  const mib = "GPU-a44622e3-2296-6285-0a86-84d0f6c67900";
  const { processes } = await readingOf("h200-busy");
  assert.deepEqual(processes![0], { pid: 1328667, name: "python3.10", uuid: mib, usedMb: 130004 });
  assert.deepEqual((await readingOf("mi250")).processes, [{
    pid: 4123,
    name: "python3",
    uuid: "",
    usedMb: 32749.546875,
  }]);
});

Deno.test("recorded machines: amd-smi, whose versions wrap lists and figures differently", async () => {
  const { cards, processes } = await readingOf("mi355");
  assert.deepEqual(cards[0], {
    ...{
      vendor: "amd",
      index: 0,
      uuid: "75ff75a3-0000-1000-80e3-fd74aab3f72c",
      name: "AMD Instinct MI355X",
    },
    ...{ memoryMb: 294896, usedMb: 283, percent: 0, watts: 239, celsius: 36, instances: null },
    ...UNSAID,
  });
  assert.deepEqual([cards[1]!.percent, cards[1]!.celsius], [73, 45]);
  const uuid = "68ff75a3-0000-1000-8089-743843afe909";
  assert.deepEqual(processes, [{
    pid: 28389,
    name: "llama-server",
    uuid,
    usedMb: 2353860608 / (1 << 20),
  }]);
  const [bare] = (await readingOf("mi300-bare")).cards;
  assert.deepEqual(bare, {
    ...{
      vendor: "amd",
      index: 0,
      uuid: "",
      name: "",
      memoryMb: 1000,
      usedMb: 250,
      percent: 50,
      watts: 100,
      celsius: 40,
    },
    instances: null,
    ...UNSAID,
  });
});

Deno.test("recorded machines: Intel's and Apple's, as far as their tools say", async () => {
  const { cards } = await readingOf("arc-b60");
  assert.deepEqual(cards[0], {
    ...UNSAID,
    ...{ vendor: "intel", index: 0, uuid: "00000000-0000-0017-0000-0000e2118086" },
    ...{ name: "Intel(R) Arc(TM) Pro B60 Graphics", instances: null, bus: "0000:17:00" },
    ...{ memoryMb: 24480, usedMb: 211.29, percent: null, watts: 43.72, celsius: 52 },
  });
  assert.deepEqual([cards[1]!.percent, cards[1]!.usedMb, cards[1]!.celsius], [98, 20480.11, null]);
  const intel = new Map(chosen(cards, { type: "auto" }, {}).devices.entries());
  assert.deepEqual(gpuVariables([1], (slot) => intel.get(slot), false), {
    ZE_AFFINITY_MASK: "1",
    ZE_FLAT_DEVICE_HIERARCHY: "COMPOSITE",
  });
  const masked = chosen(cards, { type: "auto" }, visibleOf({ ZE_AFFINITY_MASK: "1.0" }));
  assert.deepEqual(masked.devices.map(({ card }) => card), [1]);
  const [apple] = (await readingOf("apple-m3")).cards;
  assert.deepEqual([apple!.vendor, apple!.name, apple!.memoryMb], ["apple", "Apple M3 Pro", null]);
});

Deno.test("recorded machines: how cards are connected, and which of them one run gets", async () => {
  const closenessOf = async (machine: string): Promise<Closeness> => {
    const { links } = await readingOf(machine);
    return (a, b) =>
      links.find(({ cards }) => cards.includes(a) && cards.includes(b))?.closeness ?? 0;
  };
  const { links } = await readingOf("mixed-pcie");
  assert.deepEqual(
    links.filter(({ name }) => name === "PHB").map(({ cards }) => cards),
    [[1, 2], [3, 4]],
  );
  const mixed = await closenessOf("mixed-pcie");
  for (
    const [free, count, gets] of [
      // Card 0 is beyond the other socket.
      [[0, 1, 2, 3, 4], 2, [1, 2]],
      [[0, 1, 3, 4], 2, [3, 4]],
      [[0, 1, 2, 3, 4], 4, [1, 2, 3, 4]],
      // Alone it leaves the pairs whole.
      [[0, 1, 2, 3, 4], 1, [0]],
      [[1, 3, 4], 1, [1]],
      [[0, 1], 2, [0, 1]],
      [[0, 1], 0, []],
    ] as const
  ) {
    assert.deepEqual(closest(free, count, mixed), gets, `${count} of ${free}`);
  }
  const dgx = await readingOf("dgx-a100");
  assert.equal(dgx.links.length, 28);
  assert.ok(dgx.links.every(({ name }) => name === "NV12"));
  assert.deepEqual(closest([2, 5, 7], 2, await closenessOf("dgx-a100")), [2, 5]);
  assert.deepEqual(
    [(await readingOf("mi250")).links, (await readingOf("mi100-pcie")).links].map((links) =>
      links.map(({ name }) => name).join()
    ),
    ["XGMI", "PCIE,PCIE,PCIE,PCIE,PCIE,PCIE"],
  );
});

Deno.test("--gpus on recorded machines: numbers, UUIDs, MIG devices, and the daemon's own CUDA_VISIBLE_DEVICES", async () => {
  const of = (machine: string, gpus: string, visible?: string) =>
    offer(
      machine,
      parseGpuOption(gpus),
      visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible },
    );
  for (
    const [machine, gpus, visible, slots, said] of [
      ["a100x4", "auto", "2,3", "2 3", ""],
      ["a100x4", "auto", "GPU-cd9ee947", "2", ""],
      ["a100x4", "auto", "", "", ""],
      ["a100x4", "1", "2,3", "2", ""],
      [
        "a100x4",
        "3",
        "2,3",
        "2 3",
        "--gpus 3: 2 are there, and 2 that the daemon's own CUDA_VISIBLE_DEVICES hides",
      ],
      ["a100x4", "1,2", "2,3", "2", "--gpus: the daemon's own CUDA_VISIBLE_DEVICES hides 1"],
      ["a100x4", "GPU-67051dc2-cce1-4acf-d254-e76d938eda30,0", undefined, "0 3", ""],
      ["a100x4", "GPU-ffffffff", undefined, "", "--gpus: GPU-ffffffff is not there"],
      ["a100x4", "9,1", undefined, "1", "--gpus: 9 is not there"],
      ["a100-mig", "MIG-a25704ba-3a06-5299-a795-fd7cf4d13973", undefined, "101", ""],
      ["a100-mig", "0,", undefined, "100 101 102", ""],
      ["a100-mig", "auto", "MIG-feb88891-0321-5fef-9c87-d4af3b54259e", "100", ""],
      ["a100-mig-450", "MIG-GPU-2ac434d3-1aca-57a0-597d-1d2effdba9f3/2/0", undefined, "101", ""],
      ["lost-one", "5", undefined, "0 1 2 4", "--gpus 5: 4 are there"],
    ] as const
  ) {
    const found = await of(machine, gpus, visible);
    assert.equal(found.slots, slots, `${machine} --gpus ${gpus}`);
    assert.ok(found.said.endsWith(said), found.said);
  }
  using fake = new FakeGpuTools("mi250", ["rocm-smi"]);
  const { cards } = await fake.tools().read();
  for (const name of ["0xac1b58f8c066790f", "GPU-ac1b58f8c066790f", "1,"]) {
    assert.deepEqual(
      chosen(cards, parseGpuOption(name), visibleOf({})).devices.map(({ card }) => card),
      [1],
      name,
    );
  }
  assert.equal(
    chosen(cards, { type: "auto" }, visibleOf({ HIP_VISIBLE_DEVICES: "1" })).devices[0]!.card,
    1,
  );
});

const DOCS = new URL("../../../docs/how-to/gpus.md", import.meta.url);
/** Of one machine, with what is given to the daemon. */
const IN_DOCS: [machine: string, gpus: string, visible?: string][] = [
  ...machines().map((machine): [string, string] => [machine, "auto"]),
  ["a100x4", "3", "2,3"],
  ["a100x4", "9,1"],
  ["a100-mig", "MIG-a25704ba"],
  ["lost-one", "5"],
];

Deno.test("the table in docs/how-to/gpus.md is what recorded machines give (UPDATE_GOLDEN=1 rewrites it)", async () => {
  const rows: string[] = [];
  for (const [machine, gpus, visible] of IN_DOCS) {
    const env = visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible };
    const { slots, said } = await offer(
      machine,
      parseGpuOption(gpus),
      env as Record<string, string>,
    );
    const given = visible === undefined
      ? `\`${gpus}\``
      : `\`${gpus}\`, \`CUDA_VISIBLE_DEVICES=${visible}\``;
    const short = said.length > 64 ? `${said.slice(0, 63)}…` : said.replace("in 2 s", "in 20 s");
    rows.push(`| ${machine} | ${given} | ${slots || "none"} | ${short.replaceAll("|", "\\|")} |`);
  }
  const text = Deno.readTextFileSync(DOCS);
  const table = /(\| Machine \|.*\n\|---.*\n)((?:\|.*\n)*)/;
  if (Deno.env.get("UPDATE_GOLDEN") === "1") {
    Deno.writeTextFileSync(DOCS, text.replace(table, (_, head) => `${head}${rows.join("\n")}\n`));
  }
  assert.equal(table.exec(Deno.readTextFileSync(DOCS))![2]!.trimEnd(), rows.join("\n"));
});

import assert from "node:assert/strict";
import { type Device, gpuVariables, slotsFor, told } from "../../../src/dispatch/gpus/devices.ts";

const ALL = { nvidia: undefined, amd: undefined };
const card = (
  index: number,
  uuid = `GPU-${index}`,
  vendor: "nvidia" | "amd" = "nvidia",
): Device => ({
  ...{ uuid, vendor, card: index, instance: null, name: "", memoryMb: null },
});
const slots = (devices: Device[], known: Parameters<typeof slotsFor>[1]) =>
  [...slotsFor(devices, known)].map(([slot, { uuid }]) => `${slot}:${uuid}`).join(" ");

Deno.test("slots: a device keeps its slot by its UUID; a held slot never stands for another device", () => {
  assert.equal(slots([card(0), card(1)], []), "0:GPU-0 1:GPU-1");
  // Card 0 has fallen off, and the tool numbers the cards anew.
  const known = [{ slot: 0, uuid: "GPU-0", held: true }, { slot: 1, uuid: "GPU-1", held: false }];
  assert.equal(slots([card(0, "GPU-1"), card(1, "GPU-2")], known), "1:GPU-1 1000:GPU-2");
  assert.equal(slots([card(0, "GPU-1")], [{ slot: 0, uuid: "GPU-0", held: true }]), "1000:GPU-1");
  assert.equal(slots([card(0, "GPU-1")], [{ slot: 0, uuid: "GPU-0", held: false }]), "0:GPU-1");
  // A daemon before had no UUIDs, or the tool says none now.
  assert.equal(slots([card(0)], [{ slot: 0, uuid: "", held: true }]), "0:GPU-0");
  assert.equal(slots([card(0, "")], [{ slot: 0, uuid: "GPU-0", held: true }]), "0:");
  const parts = [0, 1].map((instance) => ({ ...card(1, `MIG-${instance}`), instance }));
  assert.equal(slots([card(0), ...parts], []), "0:GPU-0 200:MIG-0 201:MIG-1");
  assert.equal(slots([card(0), card(0, "0x1", "amd")], []), "0:GPU-0 1000:0x1");
});

Deno.test("a worker's variables: UUIDs in the order of the bus; numbers for HIP, where an empty list would mean all", () => {
  const of = (devices: Device[], hasAmd = false) =>
    gpuVariables(devices.map((_, i) => i), (i) => devices[i], hasAmd);
  assert.deepEqual(of([card(3), card(1, "")]), {
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    CUDA_VISIBLE_DEVICES: "GPU-3,1",
  });
  assert.deepEqual(of([]), { CUDA_VISIBLE_DEVICES: "" });
  assert.deepEqual(of([], true), { CUDA_VISIBLE_DEVICES: "", HIP_VISIBLE_DEVICES: "-1" });
  assert.deepEqual(of([card(2, "0x1", "amd")], true), {
    CUDA_VISIBLE_DEVICES: "2",
    HIP_VISIBLE_DEVICES: "2",
  });
  assert.equal(gpuVariables([7], () => undefined, false).CUDA_VISIBLE_DEVICES, "7");
});

Deno.test("without a tool, what --gpus tells is offered, within what the daemon may see", () => {
  const visible = { ...ALL, nvidia: ["2", "3"] };
  const cards = (option: Parameters<typeof told>[0], of = ALL as typeof visible | typeof ALL) =>
    told(option, of).map(({ card, uuid }) => uuid || card);
  assert.deepEqual(cards({ type: "auto" }), []);
  assert.deepEqual(cards({ type: "count", count: 2 }), [0, 1]);
  assert.deepEqual(cards({ type: "count", count: 3 }, visible), [2, 3]);
  assert.deepEqual(cards({ type: "named", names: ["1", "3"] }, visible), [3]);
  assert.deepEqual(cards({ type: "named", names: ["GPU-8932f937"] }), ["GPU-8932f937"]);
});

import assert from "node:assert/strict";
import type { Device } from "../../../src/dispatch/gpus/devices.ts";
import { isUsed, processesOn, usedMb, useText } from "../../../src/dispatch/gpus/foreign_use.ts";
import type { Card, GpuProcess } from "../../../src/os/gpus/card.ts";
import { type FreeRule, parseFreeMemory, USUAL_FREE } from "../../../src/os/gpus/free_memory.ts";
import { ownersOf } from "../../../src/os/gpus/owners.ts";

const device: Device = {
  uuid: "GPU-1",
  vendor: "nvidia",
  card: 1,
  instance: null,
  name: "",
  memoryMb: 81920,
};
const process = (pid: number, name: string, mb: number | null, uuid = "GPU-1"): GpuProcess => ({
  pid,
  name,
  usedMb: mb,
  uuid,
});
const card = (used: number | null, memoryMb: number | null = 81920) =>
  ({ usedMb: used, memoryMb }) as Card;

Deno.test("free: others may use 1 GiB or 5 % of a card; what the driver does not tell does not count", () => {
  const used = (mb: number | null, memory: number | null, rule: FreeRule = USUAL_FREE) =>
    isUsed(mb, memory, rule);
  assert.deepEqual([used(642, 8192), used(1024, 8192), used(1025, 8192)], [false, false, true]);
  assert.deepEqual([used(4096, 81920), used(4097, 81920)], [false, true]);
  assert.deepEqual([used(null, 8192), used(2000, null)], [false, true]);
  assert.deepEqual([
    used(1, 8192, { ...USUAL_FREE, ...parseFreeMemory("0%") as object }),
    used(2048, 8192, {
      ...USUAL_FREE,
      ...parseFreeMemory("2G") as object,
    }),
  ], [true, false]);
  assert.equal(parseFreeMemory("off"), "off");
  for (const wrong of ["", "many", "120%", "-1"]) {
    assert.throws(() => parseFreeMemory(wrong), /--gpu-free-memory/, wrong);
  }
});

Deno.test("free: ignored programs do not count, nor do those on other cards; a MIG device has only processes", () => {
  const all = [
    process(1, "ollama", 600),
    process(2, "python3", 2000),
    process(3, "python3", 9000, "GPU-2"),
  ];
  const rule = { ...USUAL_FREE, ignored: ["ollama"] };
  assert.equal(usedMb(device, card(2700), all, rule), 2100);
  assert.equal(usedMb(device, card(2700), all, USUAL_FREE), 2700);
  assert.equal(usedMb(device, undefined, all, rule), 2000);
  assert.equal(usedMb(device, card(90_000, null), all, rule), 2000);
  assert.equal(usedMb(device, card(null), [], rule), null);
  assert.equal(usedMb({ ...device, uuid: "" }, card(null), all, rule), null);
  assert.deepEqual(processesOn(device, all).map(({ pid }) => pid), [2, 1]);
});

Deno.test("free: the text names the process, its user and its memory", () => {
  const owners = new Map([[4123, { user: "ada", name: "python" }]]);
  const text = (...its: GpuProcess[]) => useText(1, device, 22630, its, owners);
  assert.equal(text(process(4123, "python", 22630)), "gpu 1: pid 4123 of ada, python, 22.1 GiB");
  assert.equal(text(process(4123, "", null)), "gpu 1: pid 4123 of ada, python");
  assert.equal(
    text(process(7, "vllm", 5), process(8, "", 4), process(9, "x", 3), process(10, "y", 2)),
    "gpu 1: pid 7, vllm, 5.0 MiB; pid 8, 4.0 MiB; and 2 more",
  );
  assert.equal(text(), "gpu 1: 22.1 GiB in use, of no process that the driver names");
  assert.match(useText(202, { ...device, instance: 2 }, 5, [], owners), /^gpu 1 MIG 2: /);
});

Deno.test("free: whose a process is", async () => {
  const owners = await ownersOf([Deno.pid, 999_999_999]);
  assert.deepEqual([...owners.keys()], [Deno.pid]);
  assert.ok(owners.get(Deno.pid)!.user.length > 0 && owners.get(Deno.pid)!.name.length > 0);
});

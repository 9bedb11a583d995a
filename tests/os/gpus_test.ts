import assert from "node:assert/strict";
import { detectGpus, gpusOf, parseGpuOption, parseNvidiaSmi } from "../../src/os/host/gpus.ts";
import { MosaicError } from "../../src/base/errors.ts";

const fixture = (name: string) => Deno.readTextFileSync(new URL(`fixtures/${name}`, import.meta.url));

Deno.test("gpus: the output of nvidia-smi is read, in order of the device number", () => {
  assert.deepEqual(parseNvidiaSmi(fixture("nvidia-smi-4.csv")), [
    { slot: 0, name: "NVIDIA A100-SXM4-40GB" },
    { slot: 1, name: "NVIDIA A100-SXM4-40GB" },
    { slot: 2, name: "NVIDIA GeForce RTX 4090" },
    { slot: 3, name: "Tesla T4" },
  ]);
  assert.deepEqual(parseNvidiaSmi(fixture("nvidia-smi-none.txt")), []);
});

Deno.test("gpus: a host without nvidia-smi has none, one with a broken driver says why", async () => {
  assert.deepEqual(await detectGpus(() => Promise.reject(new Deno.errors.NotFound("no such program"))), { gpus: [] });
  const stdout = fixture("nvidia-smi-broken-driver.txt");
  const broken = await detectGpus(() => Promise.resolve({ code: 9, stdout, stderr: "" }));
  assert.deepEqual(broken.gpus, []);
  assert.match(broken.problem!, /exited with 9: NVIDIA-SMI has failed because it couldn't communicate/);
});

Deno.test("gpus: --gpus takes auto, a count, or a list with a comma", () => {
  assert.deepEqual(parseGpuOption("auto"), { type: "auto" });
  assert.deepEqual(parseGpuOption("0"), { type: "slots", slots: [] });
  assert.deepEqual(parseGpuOption("3"), { type: "slots", slots: [0, 1, 2] });
  assert.deepEqual(parseGpuOption("2,0"), { type: "slots", slots: [0, 2] });
  assert.deepEqual(parseGpuOption("2,"), { type: "slots", slots: [2] });
  for (const wrong of ["", "two", "-1", "1,1", "100", "1;2", "1.5"]) {
    assert.throws(() => parseGpuOption(wrong), (e) => e instanceof MosaicError && e.code === "invalid_argument", wrong);
  }
});

Deno.test("gpus: slots that were told keep their numbers and get their names from nvidia-smi", async () => {
  const smi = () => Promise.resolve({ code: 0, stdout: fixture("nvidia-smi-4.csv"), stderr: "" });
  const { gpus } = await gpusOf({ type: "slots", slots: [2, 9] }, smi);
  assert.deepEqual(gpus, [{ slot: 2, name: "NVIDIA GeForce RTX 4090" }, { slot: 9, name: "" }]);
});

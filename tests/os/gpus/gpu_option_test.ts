import assert from "node:assert/strict";
import { MosaicError } from "../../../src/base/errors.ts";
import { parseGpuOption, visibleOf } from "../../../src/os/gpus/gpu_option.ts";

Deno.test("--gpus takes auto, a count, device numbers, and UUIDs of cards and MIG devices", () => {
  const named = (...names: string[]) => ({ type: "named", names });
  assert.deepEqual(parseGpuOption("auto"), { type: "auto" });
  assert.deepEqual(parseGpuOption("0"), { type: "count", count: 0 });
  assert.deepEqual(parseGpuOption("3"), { type: "count", count: 3 });
  assert.deepEqual(parseGpuOption("2,0"), named("2", "0"));
  assert.deepEqual(parseGpuOption("2,"), named("2"));
  const [card, part] = [
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "MIG-41b36874-f436-52b8-bf13-9ea06d3a3e3c",
  ];
  const old = "MIG-GPU-2ac434d3-1aca-57a0-597d-1d2effdba9f3/1/0";
  assert.deepEqual(parseGpuOption(card), named(card));
  assert.deepEqual(
    parseGpuOption(` ${part}, ${old},0x719d230578348e8c`),
    named(part, old, "0x719d230578348e8c"),
  );
  for (
    const wrong of [
      "",
      ",",
      "two",
      "-1",
      "1,1",
      "01,1",
      "100",
      "1;2",
      "1.5",
      "GPU-",
      "1025,",
      `${card},${card}`,
      "GPU-$(id)",
    ]
  ) {
    assert.throws(
      () => parseGpuOption(wrong),
      (e) => e instanceof MosaicError && e.code === "invalid_argument",
      wrong,
    );
  }
});

Deno.test("what the daemon may see: numbers and UUIDs up to the first that is none; HIP's numbers count within ROCr's", () => {
  for (
    const [value, names] of [
      ["2,3", ["2", "3"]],
      ["", []],
      ["-1", []],
      ["NoDevFiles", []],
      ["1,-1,2", ["1"]],
      ["GPU-8932f937, MIG-41b36874-f436", ["GPU-8932f937", "MIG-41b36874-f436"]],
    ] as const
  ) {
    assert.deepEqual(
      visibleOf({ CUDA_VISIBLE_DEVICES: value }),
      { nvidia: names, amd: undefined, intel: undefined },
      value,
    );
  }
  assert.deepEqual(visibleOf({}), { nvidia: undefined, amd: undefined, intel: undefined });
  const amd = visibleOf({
    ROCR_VISIBLE_DEVICES: "4,GPU-719d230578348e8c,6",
    HIP_VISIBLE_DEVICES: "1,2,7",
  });
  assert.deepEqual(amd.amd, ["GPU-719d230578348e8c", "6"]);
});

import { strict as assert } from "node:assert";
import {
  bytes,
  compact,
  count,
  duration,
  number,
  parseBytes,
  parseDuration,
  rate,
  shortIds,
} from "../../src/base/text/format.ts";
import { ageValue } from "../../src/cli/verb/flags.ts";
import { bar, eta, fraction, progressText } from "../../src/runs/fields/progress.ts";

function cases<T>(f: (value: T) => unknown, expected: readonly (readonly [T, unknown])[]): void {
  for (const [value, text] of expected) assert.equal(f(value), text, `of ${value}`);
}

Deno.test("format: durations read the same from a tenth of a second to days", () => {
  cases(duration, [
    [0, "0.0s"],
    [840, "0.8s"],
    [9_940, "9.9s"],
    [9_990, "10s"],
    [59_400, "59s"],
    [59_600, "1m 00s"],
    [187_000, "3m 07s"],
    [3_599_600, "1h 00m"],
    [7_500_000, "2h 05m"],
    [273_600_000, "3d 4h"],
    [-5, "0.0s"],
  ]);
});

Deno.test("format: counts, rates, bytes and numbers", () => {
  cases(count, [[0, "0"], [124336, "124,336"]]);
  cases(compact, [[7, "7"], [999, "999"], [999.7, "1.0k"], [1234, "1.2k"], [124336, "124k"], [
    9.99e5,
    "999k",
  ], [
    3.44e6,
    "3.4M",
  ], [-1500, "-1.5k"]]);
  cases(rate, [[0, "0/s"], [0.25, "0.3/s"], [12.4, "12/s"], [15400, "15k/s"]]);
  cases(bytes, [[0, "0 B"], [1023, "1023 B"], [1536, "1.5 KiB"], [5 * 2 ** 30, "5.0 GiB"], [
    250 * 2 ** 20,
    "250 MiB",
  ]]);
  cases(number, [
    [0, "0"],
    [1, "1"],
    [0.012345, "0.01235"],
    [2.5e-7, "2.5e-7"],
    [1234.5, "1235"],
    [-3.1e9, "-3.1e9"],
    [
      NaN,
      "NaN",
    ],
    [-Infinity, "-∞"],
    [250, "250"],
    [100.04, "100"],
  ]);
});

Deno.test("format: durations and sizes are read as they are written", () => {
  cases(parseDuration, [
    ["90", 90_000],
    ["1.5", 1500],
    ["500ms", 500],
    ["15m", 900_000],
    ["1h30m", 5_400_000],
    [
      "2d",
      172_800_000,
    ],
    ["", undefined],
    ["soon", undefined],
    ["5x", undefined],
    ["m", undefined],
  ]);
  cases(parseBytes, [["500", 500], ["10k", 10240], ["1.5G", 1610612736], ["2GiB", 2147483648], [
    "3 MB",
    3145728,
  ], [
    "big",
    undefined,
  ]]);
});

Deno.test("format: short ids are as long as it takes to tell the runs apart", () => {
  const a = "01K9ABCDEFGHJKMNPQRSTVWXYZ";
  const b = "01K9ABCDEFGHXXXXXXXXXXXXXX";
  assert.deepEqual([...shortIds([a, b]).values()], ["01K9ABCDEFGHJ", "01K9ABCDEFGHX"]);
  assert.deepEqual([...shortIds([a, a]).values()], ["01K9ABCDEF"]);
});

Deno.test("progress: an ETA is given only while the run trains towards a known end", () => {
  const run = { state: "EXECUTING", steps: 6200, maxSteps: 10_000, stepsPerSecond: 20 };
  assert.equal(eta(run), 190_000);
  assert.equal(eta({ ...run, state: "PAUSED" }), undefined);
  assert.equal(eta({ ...run, maxSteps: 0 }), undefined);
  assert.equal(eta({ ...run, stepsPerSecond: 0 }), undefined);
  assert.equal(fraction({ ...run, steps: 20_000 }), 1);
  assert.equal(fraction({ ...run, maxSteps: 0 }), undefined);
  assert.equal(progressText(run), "62% 6.2k/10k ETA 3m 10s");
  assert.equal(progressText(run, 10), "██████▎     62% 6.2k/10k ETA 3m 10s");
  assert.equal(progressText({ ...run, state: "PAUSED" }, 10), "██████▎     62% 6.2k/10k");
  assert.equal(progressText({ ...run, maxSteps: 0 }), "6.2k steps");
  assert.equal(bar(1, 3), "███");
});

Deno.test("format: an age needs its unit, because what is deleted is gone", () => {
  assert.equal(ageValue("30d"), 30 * 86_400_000);
  assert.throws(() => ageValue("30"), /Give its unit: 30d for days, 30h for hours/);
});

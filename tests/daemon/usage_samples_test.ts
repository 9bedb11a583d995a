import assert from "node:assert/strict";
import { isDue, pointsOf } from "../../src/daemon/usage_samples.ts";
import { parseStats, processesOf, readProcesses } from "../../src/os/processes/usage.ts";
import { batch, withStore } from "../telemetry/harness.ts";

const line = (
  pid: number,
  name: string,
  parent: number,
  group: number,
  ticks: number,
  pages: number,
) =>
  `${pid} (${name}) S ${parent} ${group} ${"0 ".repeat(8)}${ticks} 0 ${"0 ".repeat(8)}${pages} 0`;

Deno.test("usage: the worker's group and its descendants, whatever their names, and nobody else", () => {
  const all = parseStats([
    "4096",
    line(10, "sh", 1, 10, 5, 1),
    line(11, "py (a) b", 10, 10, 100, 512),
    line(12, "env", 11, 12, 50, 256),
    line(20, "other", 1, 20, 999, 999),
  ].join("\n"));
  const its = processesOf(11, all);
  assert.deepEqual(its.map((p) => [p.pid, p.ticks]), [[10, 5], [11, 100], [12, 50]]);
  assert.deepEqual(processesOf(99, all), []);
  const before = { attempt: 1, at: 0, ticks: new Map([[10, 5], [11, 20]]) };
  assert.deepEqual(
    pointsOf(its, before, 1000, [
      { percent: 40, usedMb: 100, watts: 250, celsius: 60 },
      { percent: 60, usedMb: 50, watts: null, celsius: 70 },
      { percent: null, usedMb: 0, watts: 50, celsius: null },
    ]),
    [
      ...[["system/cpu_percent", 130], ["system/memory_mb", 769 / 256], ["system/processes", 3]],
      ...[["system/gpu_percent", 50], ["system/gpu_memory_mb", 150]],
      ...[["system/gpu_power_w", 300], ["system/gpu_temperature_c", 70]],
    ],
  );
});

Deno.test("usage: this host's processes are read; an old run is sampled less often", async () => {
  const own = (await readProcesses()).find(({ pid }) => pid === Deno.pid);
  assert.ok(own!.residentBytes > 1 << 20 && own!.ticks > 0);
  assert.deepEqual([isDue(0, 15_000), isDue(86_400_000, 15_000), isDue(86_400_000, 90_000)], [
    true,
    false,
    true,
  ]);
});

Deno.test("usage: samples are metrics at the run's newest step, and no sign of life", () =>
  withStore((bench) => {
    bench.store.sample("R", 1, [["system/processes", 1]]);
    assert.equal(bench.store.head("R", "metrics"), 0);
    bench.store.ingest("R", 1, batch(0, 1, { steps: { n: 7, reward: Array(7).fill(1) } }));
    const { lastRecordAt } = bench.store.summary("R");
    bench.store.sample("R", 1, [["system/processes", 2]]);
    bench.store.sample("R", 2, [["system/processes", 9]]);
    assert.deepEqual(
      bench.store.series("R", "system/processes", 0, 0, 9).map((r) => [r.mean, r.step]),
      [[2, 7]],
    );
    assert.equal(bench.store.summary("R").lastRecordAt, lastRecordAt);
  }));

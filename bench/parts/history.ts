/** A long run read back: replay from SQLite, and chart series over any range. */
import { jsonLines } from "../../src/telemetry/json.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { pause, quantile } from "../measure.ts";
import { asReceived, stepBatch, stepColumns } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE = { observationBytes: 0 };
const BATCH = 2048;

async function withLongRun<T>(steps: number, work: (store: TelemetryStore) => T): Promise<T> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  let store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
  try {
    const template = stepColumns(0, BATCH, SHAPE);
    for (let done = 0; done < steps; done += BATCH) {
      template.reward = Array.from({ length: BATCH }, (_, i) => Math.sin((done + i) / 1e5) + i % 7);
      store.ingest("run", 1, stepBatch(done * 200, (done + BATCH) * 200, asReceived(template)));
      if (done % (BATCH * 8) === 0) await pause(0);
    }
    // Opened anew, nothing is in memory.
    store.close();
    store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
    return await work(store);
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

export async function replay(options: BenchOptions): Promise<Figure[]> {
  const machine = await yardsticks(SHAPE);
  return await withLongRun(options.quick ? 200_000 : 2_000_000, (store) => {
    const figures: Figure[] = [];
    for (const withJson of [false, true]) {
      let since = 0;
      const start = performance.now();
      for (;;) {
        const rows = store.read("run", "steps", since, 4096);
        if (rows.length === 0) break;
        if (rows[0]!.seq !== since + 1) throw new Error(`seq ${rows[0]!.seq} follows ${since}`);
        since = rows[rows.length - 1]!.seq;
        if (withJson) jsonLines("run", "steps", rows);
      }
      if (since !== store.head("run", "steps")) throw new Error(`replay ended at ${since}`);
      const value = since / (performance.now() - start) * 1000;
      const name = withJson ? "rows, and as lines of JSON" : "rows";
      figures.push({ part: "replay", name, value, unit: "steps/s", yardsticks: machine });
    }
    return figures;
  });
}

export async function series(options: BenchOptions): Promise<Figure[]> {
  const steps = options.quick ? 500_000 : 5_000_000;
  return await withLongRun(steps, (store) => {
    const points = store.head("run", "steps");
    const times: number[] = [];
    let worst = 0;
    let seed = 1;
    const random = () => (seed = seed * 48_271 % 2_147_483_647) / 2_147_483_647;
    for (let i = 0; i < 200; i++) {
      const length = Math.floor(points ** random());
      const from = 1 + Math.floor(random() * (points - length));
      const buckets = [100, 500, 2000][i % 3]!;
      const start = performance.now();
      const rows = store.series("run", "reward", from, from + length, buckets);
      const ms = performance.now() - start;
      if (rows.length > buckets) throw new Error(`${rows.length} buckets of ${buckets}`);
      times.push(ms);
      worst = Math.max(worst, ms);
    }
    const start = performance.now();
    store.series("run", "reward", 0, 0, 500);
    const whole = performance.now() - start;
    const name = `200 ranges of ${points} points`;
    return [{
      ...{ part: "series", name, value: quantile(times, 0.5), unit: "ms" },
      detail: { p99: quantile(times, 0.99), worst, "all points in 500 buckets": whole },
    }];
  });
}

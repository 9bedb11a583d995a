/** A long run read back: replay from SQLite, and chart series over any range. */
import { jsonLines } from "../../src/records/public_json.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { pause, quantile, timed } from "../measure.ts";
import { asReceived, stepBatch, stepColumns } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE = { observationBytes: 0 };
const BATCH = 2048;

async function withLongRun<T>(
  steps: number,
  work: (store: TelemetryStore) => T,
  withMetric = false,
): Promise<Awaited<T>> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  let store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
  try {
    const template = stepColumns(0, BATCH, SHAPE);
    for (let done = 0; done < steps; done += BATCH) {
      template.reward = Array.from({ length: BATCH }, (_, i) => Math.sin((done + i) / 1e5) + i % 7);
      if (withMetric) {
        template.infoJson = template.reward.map((reward) => `{"loss":${Number(reward) / 3}}`);
      }
      store.ingest("run", 1, stepBatch(done * 200, (done + BATCH) * 200, asReceived(template)));
      if (done % (BATCH * 8) === 0) await pause(0);
    }
    // Reopened, so that the caches are empty.
    store.close();
    store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
    return await work(store);
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

export async function replay(options: BenchOptions): Promise<Figure[]> {
  const machine = await yardsticks(SHAPE, options);
  return await withLongRun(options.pick(2_000_000, 200_000, 10_000), (store) => {
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

/**
 * Reward and a metric of a long run: the whole, random ranges, and close views; idle and while
 * another run is stored.
 */
export async function series(options: BenchOptions): Promise<Figure[]> {
  const steps = options.pick(5_000_000, 200_000, 10_000);
  return await withLongRun(steps, async (store) => {
    const figures: Figure[] = [];
    for (const name of ["reward", "loss"]) {
      figures.push(await ranges(store, name, `${name}, at rest`, () => {}));
      let done = 0;
      const template = stepColumns(0, BATCH, SHAPE);
      const ingest = () => {
        store.ingest(
          `beside ${name}`,
          1,
          stepBatch(done * 200, (done + BATCH) * 200, asReceived(template)),
        );
        done += BATCH;
      };
      figures.push(await ranges(store, name, `${name}, between batches of another run`, ingest));
    }
    return figures;
  }, true);
}

/** @param between called before each answer, and not measured */
async function ranges(
  store: TelemetryStore,
  series: string,
  what: string,
  between: () => void,
): Promise<Figure> {
  const points = store.head("run", "steps");
  const times: Record<"whole" | "random" | "near", number[]> = { whole: [], random: [], near: [] };
  let seed = 1;
  const random = () => (seed = seed * 48_271 % 2_147_483_647) / 2_147_483_647;
  for (let i = 0; i < 300; i++) {
    const kind = (["whole", "random", "near"] as const)[i % 3]!;
    const buckets = [200, 500, 1000, 2000][i % 4]!;
    // Lengths are distributed evenly over the orders of magnitude; "near" is one to a few screens.
    const length = kind === "whole"
      ? points
      : Math.floor(kind === "random" ? points ** random() : buckets * (1 + 30 * random()));
    const from = 1 + Math.floor(random() * Math.max(0, points - length));
    between();
    const ms = await timed(() => {
      const rows = store.series("run", series, from, from + length - 1, buckets);
      if (rows.length > buckets || rows.length === 0) {
        throw new Error(`${rows.length} buckets of ${buckets}`);
      }
    });
    times[kind].push(ms);
    if (i % 10 === 0) await pause(0);
  }
  const all = Object.values(times).flat();
  return {
    ...{
      part: "series",
      name: `${what}, 300 ranges of ${points} points`,
      value: quantile(all, 0.5),
      unit: "ms",
    },
    detail: {
      p99: quantile(all, 0.99),
      worst: Math.max(...all),
      ...Object.fromEntries(
        Object.entries(times).map((
          [kind, ms],
        ) => [kind, `${quantile(ms, 0.5).toFixed(1)} (p99 ${quantile(ms, 0.99).toFixed(1)})`]),
      ),
    },
  };
}

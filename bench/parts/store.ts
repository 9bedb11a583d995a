/** The store alone: batches of columns, as they come from a proxy, into SQLite. */
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { median, pause } from "../measure.ts";
import { asReceived, type Shape, stepBatch, stepColumns } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE: Shape = { observationBytes: 0 };

export async function store(options: BenchOptions): Promise<Figure[]> {
  const figures: Figure[] = [];
  const steps = options.pick(2_000_000, 200_000, 20_480);
  for (const [batchRows, runs] of [[512, 1], [2048, 1], [256, 8], [64, 100]] as const) {
    const machine = await yardsticks(SHAPE, options);
    const { rates, bytes, worstMs } = await fill(steps, batchRows, runs);
    figures.push({
      ...{
        part: "store",
        name: `${runs} run(s), batches of ${batchRows}`,
        value: median(rates),
        unit: "steps/s",
      },
      yardsticks: machine,
      detail: {
        "first tenth": rates[0]!,
        "last tenth": rates[rates.length - 1]!,
        "bytes a step": bytes / steps,
        "longest batch ms": worstMs,
      },
    });
  }
  return figures;
}

/** Rates of each tenth, so that a slope would show. Only the time inside `ingest` counts. */
async function fill(steps: number, batchRows: number, runs: number) {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  const store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
  try {
    const template = stepColumns(0, batchRows, SHAPE);
    const positions = new Array<number>(runs).fill(0);
    const rates: number[] = [];
    let worstMs = 0;
    let done = 0;
    for (let tenth = 1; tenth <= 10; tenth++) {
      let inside = 0;
      const before = done;
      while (done < steps * tenth / 10) {
        const run = (done / batchRows) % runs;
        const from = positions[run]!;
        const batch = stepBatch(from, from + batchRows * 200, asReceived(template));
        const start = performance.now();
        store.ingest(`run-${run}`, 1, batch);
        const ms = performance.now() - start;
        inside += ms;
        worstMs = Math.max(worstMs, ms);
        positions[run] = batch.to;
        done += batchRows;
        if (done % (batchRows * 8) === 0) await pause(0);
      }
      rates.push((done - before) / inside * 1000);
    }
    let stored = 0;
    for (let run = 0; run < runs; run++) stored += store.head(`run-${run}`, "steps");
    if (stored !== done) throw new Error(`${stored} of ${done} steps are stored`);
    // Closing moves the write-ahead log into the database file.
    store.close();
    return { rates, bytes: store.fileBytes(), worstMs };
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

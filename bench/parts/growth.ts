/**
 * Costs that must not grow: of a step with the length of its run, of a call with the number of
 * runs, of the log, of a start.
 */
import { DatabaseSync } from "node:sqlite";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Layout } from "../../src/base/layout.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { configOf } from "../../tests/harness/configs.ts";
import { TestDaemon } from "../../tests/harness/daemon.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { median, pause, processFigures, quantile, timed } from "../measure.ts";
import { prepareState } from "../page_state.ts";
import { asReceived, stepBatch, stepColumns } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE = { observationBytes: 0 };
const BATCH = 1024;
const MIB = 1024 * 1024;

/**
 * One run from its first to its ten-millionth step (or $MOSAIC_BENCH_STEPS), in the store alone,
 * and any 1000 of them.
 */
export async function long(options: BenchOptions): Promise<Figure[]> {
  const steps = Number(
    Deno.env.get("MOSAIC_BENCH_STEPS") ?? (options.pick(10_000_000, 500_000, 20_480)),
  );
  const machine = await yardsticks(SHAPE, options);
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  let store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
  try {
    const template = stepColumns(0, BATCH, SHAPE);
    const tenths: { rate: number; cpu: number; rss: number; wal: number }[] = [];
    let done = 0;
    for (let tenth = 1; tenth <= 10; tenth++) {
      const before = done;
      const cpu = processFigures(Deno.pid)!.cpuSeconds;
      let inside = 0;
      let wal = 0;
      while (done < steps * tenth / 10) {
        template.reward = Array.from(
          { length: BATCH },
          (_, i) => Math.sin((done + i) / 1e5) + i % 7,
        );
        const batch = stepBatch(done * 200, (done + BATCH) * 200, asReceived(template));
        inside += await timed(() => void store.ingest("run", 1, batch));
        done += BATCH;
        if (done % (BATCH * 16) !== 0) continue;
        wal = Math.max(wal, sizeOf(`${directory}/telemetry.sqlite-wal`));
        await pause(0);
      }
      const now = processFigures(Deno.pid)!;
      const made = done - before;
      tenths.push({
        rate: made / inside * 1000,
        cpu: (now.cpuSeconds - cpu) / made * 1e5,
        rss: now.rssBytes,
        wal,
      });
    }
    const row = (name: string, { rate, cpu, rss, wal }: typeof tenths[number]): Figure => ({
      ...{ part: "long", name, value: rate, unit: "steps/s", yardsticks: machine },
      detail: {
        "CPU s per 100 k steps": cpu,
        "resident MiB": rss / MIB,
        "largest log MiB": wal / MIB,
      },
    });
    const [first, last] = [tenths[0]!, tenths.at(-1)!];
    // Reopened, so that the caches are empty.
    store.close();
    store = TelemetryStore.open(`${directory}/telemetry.sqlite`);
    const bytes = store.fileBytes() / done;
    const charts: number[] = [];
    for (let i = 0; i < 20; i++) {
      charts.push(await timed(() => void store.series("run", "reward", 1, done, 500)));
    }
    return [
      row(`steps 1 to ${steps / 10}`, first),
      row(`the last ${steps / 10} of ${steps}`, last),
      {
        ...{
          part: "long",
          name: "last tenth to first, processor time",
          value: last.cpu / first.cpu,
          unit: "ratio",
        },
        detail: {
          "of each tenth": tenths.map(({ cpu }) => (cpu / first.cpu).toFixed(2)).join(" "),
        },
      },
      { part: "long", name: "on disk", value: bytes, unit: "bytes a step" },
      await anyThousand(store, "the first tenth", 1, done / 10),
      await anyThousand(store, "the last tenth", done * 0.9, done),
      await anyThousand(store, "all", 1, done),
      {
        part: "long",
        name: "chart of the whole run, 500 buckets",
        value: median(charts),
        unit: "ms",
      },
    ];
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

/** 1000 steps from random positions between two steps. */
async function anyThousand(
  store: TelemetryStore,
  where: string,
  from: number,
  to: number,
): Promise<Figure> {
  const times: number[] = [];
  for (let i = 0; i < 200; i++) {
    const since = Math.floor(from + Math.random() * Math.max(0, to - from - 1000));
    let read = 0;
    times.push(
      await timed(() => {
        while (read < 1000) {
          read += store.read("run", "steps", since + read, 1000 - read).length || 1000;
        }
      }),
    );
    if (read !== 1000) throw new Error(`${read} steps after ${since}, not 1000`);
    await pause(0);
  }
  const detail = { p99: quantile(times, 0.99), worst: Math.max(...times) };
  return {
    part: "long",
    name: `any 1000 steps of ${where}`,
    value: median(times),
    unit: "ms",
    detail,
  };
}

/** The same calls of a daemon with a hundred runs and of one with ten thousand. */
export async function many(options: BenchOptions): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const runs of [options.pick(100, 100, 10), options.pick(10_000, 2000, 20)]) {
    figures.push(...await withRuns(runs, options));
  }
  return figures;
}

async function withRuns(runs: number, options: BenchOptions): Promise<Figure[]> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  try {
    const layout = new Layout(stateDir);
    await prepareState(layout, { runs, steps: 0 });
    await someTelemetry(layout, runs);
    const starts: number[] = [];
    for (let round = 0; round < options.pick(3, 3, 1); round++) {
      starts.push(
        await timed(async () => void await (await TestDaemon.start({ stateDir })).stop()),
      );
    }
    await using bench = await DaemonUnderTest.start(["--max-runs", "1"], { stateDir });
    await pause(1000);
    const idle = bench.figures().rssBytes / MIB;
    const { client } = bench;
    const rounds = options.pick(100, 20, 2);
    const figure = (name: string, times: number[]): Figure => ({
      ...{ part: "many", name: `${name}, ${runs} runs`, value: median(times), unit: "ms" },
      detail: { p99: quantile(times, 0.99) },
    });
    const times = async (n: number, call: () => Promise<unknown>) => {
      const found: number[] = [];
      for (let i = 0; i < n; i++) found.push(await timed(async () => void await call()));
      return found;
    };
    /**
     * To the first record; the others are read, too, so that the next call does not wait for them.
     */
    const watch = async () => {
      const start = performance.now();
      let ms = 0;
      let records = 0;
      for await (const _ of client.stream(TrainerService.method.watchRuns, {})) {
        if (++records === 1) ms = performance.now() - start;
        if (records === runs + 1) break;
      }
      return { ms, all: performance.now() - start };
    };
    const watches: { ms: number; all: number }[] = [];
    for (let i = 0; i < 10; i++) watches.push(await watch());
    const found = [
      figure("daemon start to ready and stop", starts),
      { part: "many", name: `daemon idle, ${runs} runs`, value: idle, unit: "MiB" },
      figure(
        "GetHealth",
        await times(rounds, () => client.unary(TrainerService.method.getHealth, {})),
      ),
      figure(
        "ListRuns, newest 100",
        await times(rounds, () => client.unary(Mosaic.method.listRuns, { limit: 100 })),
      ),
      figure(
        "ListRuns of the original, all",
        await times(5, () => client.unary(TrainerService.method.listRuns, {})),
      ),
      figure("WatchRuns, first record", watches.map(({ ms }) => ms)),
      figure("WatchRuns, all runs as they are", watches.map(({ all }) => all)),
    ];
    // The first run holds the only slot, so the others stay in the queue: their start is not
    // measured.
    await bench.submitCommand(["/bin/sleep", "600"]);
    const submits = await times(rounds, () =>
      client.unary(TrainerService.method.submitRun, {
        configJson: configOf({ name: `waits-${crypto.randomUUID()}`, command: ["/bin/true"] }),
      }));
    return [
      ...found,
      figure("SubmitRun", submits),
      {
        ...{
          part: "many",
          name: `daemon after all that, ${runs} runs`,
          value: bench.figures().rssBytes / MIB,
        },
        ...{ unit: "MiB", detail: { peak: bench.figures().peakBytes / MIB } },
      },
    ];
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
}

/** Each run has a few records. */
async function someTelemetry(layout: Layout, runs: number): Promise<void> {
  const store = TelemetryStore.open(layout.telemetryDb);
  try {
    const template = stepColumns(0, 16, SHAPE);
    for (let i = 0; i < runs; i++) {
      store.ingest(
        `01RUN${String(i).padStart(21, "0")}`,
        1,
        stepBatch(0, 3200, asReceived(template)),
      );
      if (i % 100 === 0) await pause(0);
    }
  } finally {
    store.close();
  }
}

/**
 * The write-ahead log while there are readers: mosaic's cursors, and a program that holds the
 * database open for reading.
 */
export async function wal(options: BenchOptions): Promise<Figure[]> {
  const steps = options.pick(500_000, 100_000, 5000);
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  const path = `${directory}/telemetry.sqlite`;
  const store = TelemetryStore.open(path);
  try {
    const template = stepColumns(0, BATCH, SHAPE);
    let done = 0;
    /** The largest log while `steps` more are stored and as many cursors read on. */
    const largest = async (cursors: number): Promise<number> => {
      const at = new Array<number>(cursors).fill(0);
      let most = 0;
      for (const end = done + steps; done < end; done += BATCH) {
        store.ingest("run", 1, stepBatch(done * 200, (done + BATCH) * 200, asReceived(template)));
        const cursor = (done / BATCH) % Math.max(1, cursors);
        if (cursors > 0) {
          at[cursor] = store.read("run", "steps", at[cursor]!, 1024).at(-1)?.seq ?? at[cursor]!;
        }
        most = Math.max(most, sizeOf(`${path}-wal`));
        if (done % (BATCH * 4) === 0) await pause(1);
      }
      return most / MIB;
    };
    const row = (name: string, value: number): Figure => ({
      part: "wal",
      name,
      value,
      unit: "MiB",
    });
    const figures = [
      row("largest log, no reader", await largest(0)),
      row("largest log, 20 cursors far behind", await largest(20)),
    ];
    const foreign = new DatabaseSync(path, { readOnly: true });
    foreign.exec("BEGIN");
    foreign.prepare("SELECT count(*) FROM telemetry_runs").get();
    figures.push(row("largest log, a foreign program holds a snapshot", await largest(0)));
    foreign.close();
    await largest(0);
    await pause(500);
    return [...figures, row("log after it has gone", sizeOf(`${path}-wal`) / MIB)];
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

/** A daemon's start on a large telemetry file. */
export async function large(options: BenchOptions): Promise<Figure[]> {
  const gigabytes = options.pick(10, 1, 1 / 64);
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  try {
    const layout = new Layout(stateDir);
    await prepareState(layout, { runs: 10, steps: options.pick(100_000, 100_000, 1000) });
    fillWithBlobs(layout.telemetryDb, gigabytes * 1024);
    const ready: number[] = [];
    const empty: number[] = [];
    for (let round = 0; round < options.pick(5, 5, 1); round++) {
      for (const [times, directory] of [[empty, undefined], [ready, stateDir]] as const) {
        let daemon: TestDaemon | undefined;
        times.push(
          await timed(async () => void (daemon = await TestDaemon.start({ stateDir: directory }))),
        );
        await daemon![Symbol.asyncDispose]();
      }
    }
    return [{
      ...{
        part: "large",
        name: `daemon start to ready, ${gigabytes} GB of telemetry`,
        value: median(ready),
        unit: "ms",
      },
      detail: { "with an empty state directory": median(empty), worst: Math.max(...ready) },
    }];
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
}

/** Steps with observations of 1 MiB, which are cheap to generate. */
function fillWithBlobs(path: string, megabytes: number): void {
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536");
    db.exec("INSERT INTO telemetry_runs (run_id, wide) VALUES ('01BLOBS0000000000000000000', 1)");
    db.exec(
      `WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ${megabytes})
        INSERT INTO steps (run_key, seq, ts_ns, observation)
        SELECT (SELECT max(run_key) FROM telemetry_runs), seq, 1700000000000000000, zeroblob(${MIB}) FROM n`,
    );
    db.exec(
      `UPDATE telemetry_runs SET steps = ${megabytes} WHERE run_id = '01BLOBS0000000000000000000'`,
    );
    db.exec("PRAGMA journal_mode = WAL");
  } finally {
    db.close();
  }
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0;
  }
}

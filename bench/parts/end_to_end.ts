/** Workers, proxies and a daemon as in real use; a result counts only if no step is missing. */
import { DaemonUnderTest, type Delivery, deliveryDetail, type Load } from "../daemon_under_test.ts";
import { median } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

async function deliver(
  options: BenchOptions,
  part: string,
  name: string,
  runs: number,
  load: Load,
): Promise<Figure> {
  const machine = await yardsticks(load, options);
  await using bench = await DaemonUnderTest.start(["--max-runs", String(Math.max(runs, 8))]);
  // Starting many runs takes longer than delivering their records, so the start is measured
  // separately.
  const gate = runs > 1 ? { file: `${bench.daemon.stateDir}/go` } : undefined;
  const ids: string[] = [];
  for (let i = 0; i < runs; i++) ids.push(await bench.submit(load, gate));
  const startSeconds = gate === undefined ? undefined : await bench.open(gate, ids);
  const delivery = await bench.delivered(ids, load);
  return {
    ...{ part, name, value: delivery.stepsPerSecond, unit: "steps/s", yardsticks: machine },
    detail: {
      ...deliveryDetail(delivery),
      ...(startSeconds === undefined ? {} : { "seconds to start": startSeconds }),
    },
  };
}

const scaled = (options: BenchOptions, steps: number) =>
  Math.ceil(steps / options.pick(1, 10, 500));

export async function single(options: BenchOptions): Promise<Figure[]> {
  return [
    await deliver(options, "single", "1 fast worker", 1, {
      steps: scaled(options, 1_000_000),
      observationBytes: 0,
    }),
  ];
}

export async function eight(options: BenchOptions): Promise<Figure[]> {
  return [
    await deliver(options, "eight", "8 workers", 8, {
      steps: scaled(options, 200_000),
      observationBytes: 0,
    }),
  ];
}

export async function hundred(options: BenchOptions): Promise<Figure[]> {
  return [
    await deliver(options, "hundred", "100 workers", options.pick(100, 100, 3), {
      steps: scaled(options, 20_000),
      observationBytes: 0,
    }),
  ];
}

export async function sizes(options: BenchOptions): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (
    const [name, observationBytes, steps] of [["1 KB", 1000, 200_000], [
      "100 KB",
      100_000,
      3000,
    ]] as const
  ) {
    figures.push(
      await deliver(options, "sizes", `observations of ${name}`, 1, {
        steps: scaled(options, steps),
        observationBytes,
      }),
    );
  }
  return figures;
}

/** Ingest rate and memory of the first and the last part of a long run. */
export async function memory(options: BenchOptions): Promise<Figure[]> {
  const load = { steps: scaled(options, 1_000_000), observationBytes: 0 };
  await using bench = await DaemonUnderTest.start();
  const figures: Figure[] = [];
  for (let round = 1; round <= 3; round++) {
    const delivery = await bench.delivered([await bench.submit(load)], load);
    const { rssBytes } = bench.figures();
    figures.push({
      ...{
        part: "memory",
        name: `daemon after run ${round}`,
        value: rssBytes / 1024 / 1024,
        unit: "MiB",
      },
      detail: { "steps/s": delivery.stepsPerSecond, ...deliveryDetail(delivery) },
    });
  }
  return figures;
}

/**
 * Readers beside one fast worker. The cost of a stalled reader is a ratio: the same daemon's runs
 * with and without it, alternating. The machine varies more from minute to minute than a stalled
 * reader may cost, so the runs are short and many.
 */
export async function subscribers(options: BenchOptions): Promise<Figure[]> {
  const load = { steps: scaled(options, 300_000), observationBytes: 0 };
  const short = { ...load, steps: load.steps / 2 };
  const pairs = options.pick(12, 1, 1);
  const machine = await yardsticks(load, options);
  await using bench = await DaemonUnderTest.start();
  const figures: Figure[] = [];
  const add = (name: string, runs: Delivery[]) =>
    figures.push({
      ...{
        part: "subscribers",
        name,
        value: median(runs.map((run) => run.stepsPerSecond)),
        unit: "steps/s",
      },
      ...{ yardsticks: machine, detail: deliveryDetail(runs.at(-1)!) },
    });
  // The first run of a daemon is slower than the others, with and without readers.
  await read(bench, load, 1, 0);
  add("no reader", [await read(bench, load, 0, 0)]);
  const without: Delivery[] = [];
  const withStalled: Delivery[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    // Alternate which one goes first.
    const order = pair % 2 === 0 ? [without, withStalled] : [withStalled, without];
    for (const runs of order) runs.push(await read(bench, short, 1, runs === withStalled ? 1 : 0));
  }
  add("1 reader", without);
  add("1 reader and 1 stalled", withStalled);
  const ratio = (of: (run: Delivery) => number) =>
    median(withStalled.map(of)) / median(without.map(of));
  figures.push({
    ...{
      part: "subscribers",
      name: "stalled to none: rate",
      value: ratio((run) => run.stepsPerSecond),
      unit: "ratio",
    },
    detail: {
      "daemon's processor time": ratio((run) => run.daemonCpuPer100k),
      "pairs of runs": pairs,
    },
  });
  add("19 readers and 1 stalled", [await read(bench, load, 19, 1)]);
  return figures;
}

/** One run that is read; every reader that reads sees every step. */
async function read(
  bench: DaemonUnderTest,
  load: Load,
  reading: number,
  stalled: number,
): Promise<Delivery> {
  // Wait until all readers are connected.
  const gate = { file: `${bench.daemon.stateDir}/go-${crypto.randomUUID()}` };
  const id = await bench.submit(load, gate);
  const readers = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      SUBSCRIBER,
      bench.daemon.target,
      id,
      String(reading),
      String(stalled),
    ],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  await bench.following(reading + stalled);
  await bench.open(gate, [id]);
  const delivery = await bench.delivered([id], load);
  const { stdout, success } = await readers.output();
  const { seen } = success
    ? JSON.parse(new TextDecoder().decode(stdout)) as { seen: number[] }
    : { seen: [] };
  if (seen.length !== reading || seen.some((steps) => steps !== load.steps)) {
    throw new Error(`subscribers saw ${seen.join(", ")} of ${load.steps} steps`);
  }
  return delivery;
}

const SUBSCRIBER = new URL("../subscriber.ts", import.meta.url).pathname;

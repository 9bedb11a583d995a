/**
 * Sweeps whose trials all wait in the queue: what making them, listing them and a pass of the
 * scheduler cost.
 */
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { checked } from "../../src/sweeps/spec.ts";
import { gridAxis, partFrom } from "../../src/sweeps/words.ts";
import { configOf } from "../../tests/harness/configs.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { median, pause, processFigures, quantile, timed } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const MIB = 1024 * 1024;
/** The most that one sweep has at once (src/sweeps/spec.ts). */
const OF_ONE = 10_000;

export async function trials(options: BenchOptions): Promise<Figure[]> {
  const count = Number(Deno.env.get("MOSAIC_BENCH_TRIALS") ?? options.pick(20_000, 2000, 40));
  await using bench = await DaemonUnderTest.start([
    "--max-runs",
    "1",
    "--max-queue",
    String(count + 100),
  ]);
  const { client, daemon } = bench;
  const rss = () => processFigures(daemon.pid)!.rssBytes / MIB;
  // It holds the only place.
  await bench.submitCommand(["/bin/sleep", "3600"]);
  const before = rss();
  const names: string[] = [];
  const start = performance.now();
  for (let left = count; left > 0; left -= OF_ONE) {
    const size = Math.min(left, OF_ONE);
    names.push(`sweep-${names.length}`);
    const spec = checked({
      ...{ name: names.at(-1)!, pass: "templates", budget: {}, max_parallel: size },
      config: JSON.parse(configOf({ command: ["/bin/true", "{k}"] })),
      parts: [partFrom({ axes: [gridAxis(`k=1..${size}`)], space: [] })],
    });
    await client.unary(Mosaic.method.createSweep, { specJson: JSON.stringify(spec) });
  }
  const made = async () => {
    const { sweeps } = await client.unary(Mosaic.method.listSweeps, {});
    return sweeps.reduce((sum, { made }) => sum + made, 0);
  };
  while (await made() < count) await pause(500);
  const seconds = (performance.now() - start) / 1000;
  const figure = (
    name: string,
    value: number,
    unit: string,
    detail: Record<string, number> = {},
  ): Figure => ({
    ...{ part: "trials", name: `${name}, ${count} trials in the queue`, value, unit, detail },
  });
  const rounds = options.pick(100, 20, 2);
  const call = async (name: string, work: () => Promise<unknown>) => {
    const times: number[] = [];
    for (let i = 0; i < rounds; i++) times.push(await timed(async () => void await work()));
    return figure(name, median(times), "ms", { p99: quantile(times, 0.99) });
  };
  const idleS = options.pick(20, 10, 1);
  const cpu = processFigures(daemon.pid)!.cpuSeconds;
  await pause(idleS * 1000);
  // Nothing happens but the scheduler's safety net, every two seconds, and the sweeps' own.
  const idle = (processFigures(daemon.pid)!.cpuSeconds - cpu) / idleS;
  return [
    figure("trials made", count / seconds, "1/s"),
    figure("memory of the daemon", rss(), "MiB", { before }),
    figure("processor at rest", 100 * idle, "%"),
    await call("ListRuns, newest 100", () => client.unary(Mosaic.method.listRuns, { limit: 100 })),
    await call("ListSweeps", () => client.unary(Mosaic.method.listSweeps, {})),
    await call(
      "GetSweep",
      () => client.unary(Mosaic.method.getSweep, { sweep: names[0]!, trials: 100 }),
    ),
    await call("GetHealth", () => client.unary(TrainerService.method.getHealth, {})),
  ];
}

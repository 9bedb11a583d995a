/** How long a person or a program waits: unary calls, the way from submit to the first record, starting up. */
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { PROGRAM, TestDaemon } from "../../tests/harness/daemon.ts";
import { countingWorker } from "../../tests/harness/configs.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { median, pause, processFigures, quantile, timed } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

/** GetHealth, one call after the other, until `stop` or so many. */
async function calls(bench: DaemonUnderTest, count: number, stop: () => boolean): Promise<number[]> {
  const times: number[] = [];
  while (times.length < count && !stop()) {
    times.push(await timed(async () => void await bench.client.unary(TrainerService.method.getHealth, {})));
  }
  return times;
}

function latency(part: string, name: string, times: number[]): Figure {
  const detail = {
    p90: quantile(times, 0.9),
    p99: quantile(times, 0.99),
    worst: Math.max(...times),
    calls: times.length,
  };
  return { part, name, value: median(times), unit: "ms", detail };
}

export async function health(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  await calls(bench, 200, () => false);
  const idle = await calls(bench, options.quick ? 500 : 3000, () => false);
  const load = { steps: options.quick ? 200_000 : 1_000_000, observationBytes: 0 };
  const id = await bench.submit(load);
  let over = false;
  const delivering = bench.delivered([id], load).finally(() => over = true);
  while (!over && Number((await bench.run(id)).telemetry?.steps ?? 0) === 0) await pause(5);
  const loaded = await calls(bench, Infinity, () => over);
  await delivering;
  return [latency("health", "GetHealth, idle", idle), latency("health", "GetHealth, under a fast worker", loaded)];
}

export async function submit(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  const answered: number[] = [];
  const spans: Record<string, number[]> = { HANDSHAKE: [], READY: [], EXECUTING: [] };
  for (let i = 0; i < (options.quick ? 5 : 30); i++) {
    let id = "";
    answered.push(await timed(async () => void (id = await bench.submitCommand(countingWorker({ steps: 3 })))));
    for (;;) {
      const run = await bench.run(id);
      if (run.state === "FAULTED") throw new Error(`run ${id} is FAULTED: ${run.reason}`);
      if (run.state !== "TERMINATED") {
        await pause(20);
        continue;
      }
      const at = (state: string) => {
        const time = run.transitions.find((transition) => transition.toState === state)?.at;
        return time === undefined ? NaN : Number(time.seconds) * 1000 + time.nanos / 1e6;
      };
      for (const state in spans) spans[state]!.push(at(state) - at("INIT"));
      break;
    }
  }
  return [
    latency("submit", "SubmitRun answers", answered),
    ...Object.entries(spans).map(([state, times]) => latency("submit", `submit → ${state}`, times)),
  ];
}

export async function startup(options: BenchOptions): Promise<Figure[]> {
  const rounds = options.quick ? 3 : 10;
  const help: number[] = [];
  const ready: number[] = [];
  const idle: number[] = [];
  for (let i = 0; i < rounds; i++) {
    help.push(
      await timed(async () => {
        const args = [...PROGRAM.slice(1), "--help"];
        await new Deno.Command(PROGRAM[0]!, { args, stdout: "null", stderr: "null" }).output();
      }),
    );
    let daemon: TestDaemon | undefined;
    ready.push(await timed(async () => void (daemon = await TestDaemon.start())));
    await pause(1000);
    idle.push((processFigures(daemon!.pid)?.rssBytes ?? NaN) / 1024 / 1024);
    await daemon![Symbol.asyncDispose]();
  }
  return [
    latency("startup", "mosaic --help", help),
    latency("startup", "daemon start to ready", ready),
    { part: "startup", name: "daemon, idle", value: median(idle), unit: "MiB" },
  ];
}

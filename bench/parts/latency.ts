/**
 * Waiting times of people and programs: unary calls, the way from submit to the first record,
 * starts.
 */
import { PROGRAM, TestDaemon } from "../../tests/harness/daemon.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { configOf, countingWorker } from "../../tests/harness/configs.ts";
import { GrpcClient } from "../../tests/harness/grpc_client.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { median, pause, processFigures, quantile, timed } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const CALLER = new URL("../caller.ts", import.meta.url).pathname;

/**
 * GetHealth of the daemons, in turn, while `work` runs. @returns for each the milliseconds of calls
 * within the returned span
 */
async function callsBeside(
  daemons: readonly DaemonUnderTest[],
  work: () => Promise<{ from: number; to: number }>,
): Promise<number[][]> {
  const caller = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CALLER, ...daemons.map(({ daemon }) => daemon.target)],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const output = caller.stdout.pipeThrough(new TextDecoderStream()).getReader();
  await output.read();
  const { from, to } = await work();
  await caller.stdin.close();
  let text = "";
  for (let { done, value } = await output.read(); !done; { done, value } = await output.read()) {
    text += value;
  }
  const calls = JSON.parse(text) as [at: number, ms: number][][];
  return calls.map((of) => of.filter(([at]) => at >= from && at < to).map(([, ms]) => ms));
}

function latency(part: string, name: string, times: number[]): Figure {
  const detail = {
    p90: quantile(times, 0.9),
    p99: quantile(times, 0.99),
    least: Math.min(...times),
    worst: Math.max(...times),
    calls: times.length,
  };
  return { part, name, value: median(times), unit: "ms", detail };
}

const now = () => performance.timeOrigin + performance.now();

/**
 * The daemon that does the work, and an idle one beside it, whose calls show how long the machine
 * alone lets them wait.
 */
export async function health(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  await using yardstick = await DaemonUnderTest.start();
  const [idle] = await callsBeside([bench], async () => {
    const from = now();
    await pause(options.pick(4000, 1000, 100));
    return { from, to: now() };
  });
  const figures = [latency("health", "GetHealth, idle", idle!)];
  for (
    const [name, runs, steps] of [["a fast worker", 1, 1_000_000], [
      "8 workers",
      options.pick(8, 8, 2),
      200_000,
    ]] as const
  ) {
    const load = { steps: steps / options.pick(1, 5, 1000), observationBytes: 0 };
    const gate = { file: `${bench.daemon.stateDir}/go-${runs}` };
    const ids: string[] = [];
    for (let i = 0; i < runs; i++) ids.push(await bench.submit(load, gate));
    await bench.ready(ids);
    const [busy, beside] = await callsBeside([bench, yardstick], async () => {
      const delivering = bench.delivered(ids, load);
      await bench.open(gate, ids);
      while (Number((await bench.run(ids[0]!)).telemetry?.steps ?? 0) === 0) await pause(5);
      const from = now();
      return { from, to: from + (await delivering).seconds * 1000 };
    });
    figures.push(latency("health", `GetHealth beside ${name}`, busy!));
    figures.push(latency("health", `GetHealth of an idle daemon beside ${name}`, beside!));
  }
  return figures;
}

export async function submit(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  const answered: number[] = [];
  const spans: Record<string, number[]> = { HANDSHAKE: [], READY: [], EXECUTING: [] };
  for (let i = 0; i < (options.pick(30, 5, 1)); i++) {
    let id = "";
    answered.push(
      await timed(async () => void (id = await bench.submitCommand(countingWorker({ steps: 3 })))),
    );
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

/**
 * As the original's clients call: gRPC over loopback TCP, one call at a time, while nothing else
 * happens.
 */
export async function grpc(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  const client = new GrpcClient(bench.daemon.address);
  const [getHealth, submitRun] = [TrainerService.method.getHealth, TrainerService.method.submitRun];
  const health = () => client.unary(getHealth, {});
  for (let i = 0; i < options.pick(500, 200, 5); i++) await health();
  const asked: number[] = [];
  for (let i = 0; i < options.pick(5000, 1000, 5); i++) {
    asked.push(await timed(async () => void await health()));
  }
  const submitted: number[] = [];
  for (let i = 0; i < options.pick(50, 20, 1); i++) {
    // It waits for its time, so that no start of a worker is measured.
    const queue = { begin: new Date(Date.now() + 86_400_000).toISOString() };
    const configJson = configOf({ command: ["/bin/true"], name: `run ${i}`, metadata: { queue } });
    submitted.push(await timed(async () => void await client.unary(submitRun, { configJson })));
    await pause(50);
  }
  client.close();
  return [latency("grpc", "GetHealth", asked), latency("grpc", "SubmitRun answers", submitted)];
}

export async function startup(options: BenchOptions): Promise<Figure[]> {
  const rounds = options.pick(10, 3, 1);
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

/**
 * The cost of several slow workers: bytes written for each byte of their output, and when a step is
 * acknowledged.
 */
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { pause, processFigures } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const WORKERS = 4;
/** About 75 bytes a step, 50 steps a second. */
const WORKER = `BEGIN {
  for (i = 0;; i++) {
    printf "{\\"event_type\\":\\"step\\",\\"episode\\":%d,\\"step_index\\":%d,\\"action\\":%d,\\"reward\\":1.0}\\n", i / 200, i % 200, i % 2
    fflush()
    system("sleep 0.018")
  }
}`;

/** Bytes that a process has written to files, as counted by the kernel. */
function bytesWritten(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(Deno.readTextFileSync(`/proc/${pid}/io`))![1]);
}

export async function slow(options: BenchOptions): Promise<Figure[]> {
  await using bench = await DaemonUnderTest.start();
  const ids: string[] = [];
  for (let i = 0; i < WORKERS; i++) ids.push(await bench.submitCommand(["/usr/bin/awk", WORKER]));
  const runs = async () => await Promise.all(ids.map((id) => bench.run(id)));
  while ((await runs()).some((run) => (run.telemetry?.steps ?? 0n) < 50n)) await pause(100);
  const figures = async () => {
    const all = await runs();
    const metrics = await (await fetch(`http://${bench.daemon.http}/metrics`)).text();
    const acks = (rest: string) =>
      Number(
        new RegExp(`^mosaic_ingest_ack_duration_seconds_${rest} (\\S+)$`, "m").exec(metrics)![1],
      );
    const proxies = all.map((run) => Number(run.proxyPid));
    return {
      at: performance.now(),
      steps: all.reduce((sum, run) => sum + Number(run.telemetry!.steps), 0),
      output: all.reduce((sum, run) => sum + Number(run.telemetry!.journalPosition), 0),
      ...{ acks: acks("count"), ackSeconds: acks("sum"), halfSecond: acks('bucket\\{le="0.5"\\}') },
      daemon: bytesWritten(bench.daemon.pid),
      proxies: proxies.reduce((sum, pid) => sum + bytesWritten(pid), 0),
      daemonCpu: bench.figures().cpuSeconds,
      proxyCpu: proxies.reduce((sum, pid) => sum + processFigures(pid)!.cpuSeconds, 0),
    };
  };
  const before = await figures();
  await pause(options.pick(180_000, 20_000, 500));
  const after = await figures();
  for (const id of ids) await bench.client.unary(Mosaic.method.cancelRun, { run: id });
  const grown = (of: (f: typeof before) => number) => of(after) - of(before);
  const seconds = grown((f) => f.at) / 1000;
  const output = grown((f) => f.output);
  return [{
    ...{ part: "slow", name: `${WORKERS} workers, bytes written for a byte of output` },
    ...{ value: (grown((f) => f.daemon) + grown((f) => f.proxies)) / output, unit: "ratio" },
    detail: {
      "output bytes/s": output / seconds,
      "steps/s": grown((f) => f.steps) / seconds,
      "daemon bytes/s": grown((f) => f.daemon) / seconds,
      "proxies bytes/s": grown((f) => f.proxies) / seconds,
      "mean ms to an acknowledgement": grown((f) => f.ackSeconds) / grown((f) => f.acks) * 1000,
      "share above 0.5 s": 1 - grown((f) => f.halfSecond) / grown((f) => f.acks),
      "daemon's share of a processor": grown((f) => f.daemonCpu) / seconds,
      "proxies' share": grown((f) => f.proxyCpu) / seconds,
    },
  }];
}

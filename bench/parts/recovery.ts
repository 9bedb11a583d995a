/** The cost of a daemon's absence, and how soon it has its runs again. */
import { RunFiles } from "../../src/base/layout.ts";
import { DaemonUnderTest, deliveryDetail, MIB } from "../daemon_under_test.ts";
import { median, pause, type ProcessFigures, processFigures } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

/** About 190 bytes a step: a gigabyte of journal. */
const STEPS = 5_500_000;
const RUNS = 100;

/**
 * A gigabyte is written to the journal while the daemon is away: the proxy's memory then, and the
 * rate at which it is stored afterwards.
 */
export async function backlog(options: BenchOptions): Promise<Figure[]> {
  const load = { steps: STEPS / options.pick(1, 10, 1000), observationBytes: 0 };
  const machine = await yardsticks(load, options);
  await using bench = await DaemonUnderTest.start();
  const gate = { file: `${bench.daemon.stateDir}/go` };
  const id = await bench.submit(load, gate);
  await bench.ready([id]);
  const run = await bench.run(id);
  await bench.daemon.kill9();
  Deno.writeTextFileSync(gate.file, "");
  await ended(Number(run.workerPid));
  // By now the garbage of the start has been collected.
  await pause(2000);
  const away = metricsOf(Number(run.proxyPid));
  const journal = Deno.statSync(new RunFiles(run.directory, run.workerId).stdout(1)).size;
  await bench.daemon.restart();
  const delivery = await bench.delivered([id], load);
  return [
    {
      ...{ part: "backlog", name: "proxy, daemon away", value: away.rssBytes / MIB, unit: "MiB" },
      detail: { "journal MiB": journal / MIB, "proxy CPU s so far": away.cpuSeconds },
    },
    {
      ...{
        part: "backlog",
        name: "caught up",
        value: delivery.stepsPerSecond,
        unit: "steps/s",
        yardsticks: machine,
      },
      detail: deliveryDetail(delivery),
    },
  ];
}

/**
 * From the start of a daemon whose predecessor was killed until the last of its runs' proxies is
 * connected.
 */
export async function reattach(options: BenchOptions): Promise<Figure[]> {
  const runs = options.pick(RUNS, 20, 2);
  await using bench = await DaemonUnderTest.start(["--max-runs", String(runs)]);
  const ids: string[] = [];
  for (let i = 0; i < runs; i++) ids.push(await bench.submitCommand(["/bin/sleep", "3600"]));
  await bench.ready(ids);
  const seconds: number[] = [];
  const boot: number[] = [];
  let cpuSeconds = 0;
  for (let round = 0; round < (options.pick(5, 2, 1)); round++) {
    await bench.daemon.kill9();
    // Long enough for the proxies' back-off to have grown.
    await pause(options.pick(5000, 5000, 100));
    const start = performance.now();
    await bench.daemon.restart();
    boot.push((performance.now() - start) / 1000);
    while (await bench.proxiesConnected() < runs) await pause(10);
    seconds.push((performance.now() - start) / 1000);
    cpuSeconds = bench.figures().cpuSeconds;
  }
  return [{
    ...{
      part: "reattach",
      name: `${runs} runs, daemon start to all attached`,
      value: median(seconds),
      unit: "s",
    },
    detail: {
      "daemon ready after s": median(boot),
      "longest s": Math.max(...seconds),
      "daemon CPU s": cpuSeconds,
    },
  }];
}

async function ended(pid: number): Promise<void> {
  while (processFigures(pid) !== undefined) await pause(200);
}

function metricsOf(pid: number): ProcessFigures {
  const found = processFigures(pid);
  if (found === undefined) throw new Error(`the proxy (pid ${pid}) is gone`);
  return found;
}

/**
 * `deno task soak [--minutes N] [--every SECONDS]`: hours of mixed load on one real daemon, whose
 * memory, descriptors and write-ahead log are sampled. It is not a part of `deno task bench`,
 * because it takes hours (180 minutes by default).
 *
 * The load: a short run every 2 s; one run that streams all the time; each second a client that
 * comes, lists and goes; every 10 s a `mosaic list` process and a page that follows the live events
 * for a while; some cancellations; every minute a deletion of what ended over two minutes ago.
 *
 * Writes bench/results/soak-TIME.csv (one line each 15 s) and .svg, prints the quarters, and exits
 * with 1 if a run was lost or ended otherwise than asked.
 */
import { MosaicClient } from "../src/wire/client/client.ts";
import { Mosaic } from "../src/gen/mosaic/v1/mosaic_pb.ts";
import { taskArguments } from "../scripts/task_arguments.ts";
import { PROGRAM } from "../tests/harness/daemon.ts";
import { DaemonUnderTest } from "./daemon_under_test.ts";
import { median, pause, processFigures } from "./measure.ts";

const SAMPLE_MS = 15_000;
const WORKER = new URL("worker.awk", import.meta.url).pathname;
const KEPT_MS = 120_000;
const PAGE_FOLLOWS_MS = 8_000;

interface Sample {
  minutes: number;
  rssMiB: number;
  /** Used JavaScript heap, including garbage that is not collected yet. */
  heapMiB: number;
  descriptors: number;
  walMiB: number;
  databaseMiB: number;
  runs: number;
  cpuSeconds: number;
}

interface Told {
  submitted: number;
  ended: number;
  cancelled: number;
  deleted: number;
  calls: number;
  wrong: string[];
}

function above0(name: string, text: string): number {
  if (Number(text) > 0) return Number(text);
  console.error(`--${name} ${text}: it is a number above 0`);
  Deno.exit(2);
}

const sizeOf = (path: string): number => {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0;
  }
};

async function heapUsed(http: string): Promise<number> {
  const metrics = await (await fetch(`http://${http}/metrics`)).text();
  return Number(/^mosaic_heap_used_bytes (\S+)/m.exec(metrics)?.[1]);
}

async function soak(minutes: number, everySeconds: number): Promise<number> {
  await using bench = await DaemonUnderTest.start(["--listen", "none"]);
  const { daemon, client } = bench;
  const socket = `unix:${daemon.layout.trainer}/daemon.sock`;
  const telemetry = `${daemon.stateDir}/telemetry/mosaic.sqlite`;
  const start = performance.now();
  const end = start + minutes * 60_000;
  const told: Told = { submitted: 0, ended: 0, cancelled: 0, deleted: 0, calls: 0, wrong: [] };
  const going = () => performance.now() < end;
  const live = new Map<string, "ends" | "cancelled">();

  const awk = (
    ...values: string[]
  ) => ["/usr/bin/awk", ...values.flatMap((v) => ["-v", v]), "-f", WORKER];
  const repeatedly = async (ms: number, work: (round: number) => Promise<void>) => {
    for (let round = 0; going(); round++) {
      const began = performance.now();
      try {
        await work(round);
      } catch (error) {
        told.wrong.push(String(error));
      }
      await pause(Math.max(0, ms - (performance.now() - began)));
    }
  };

  const submit = async (round: number) => {
    // Submit nothing while the machine cannot keep up.
    if (live.size > 20) return;
    const cancelled = round % 10 === 9;
    const runId = await bench.submitCommand(cancelled ? awk("n=100000", "pace=1") : awk("n=200"));
    told.submitted++;
    live.set(runId, cancelled ? "cancelled" : "ends");
  };
  const watchEnds = async () => {
    for (const [runId, expected] of live) {
      const run = await bench.run(runId);
      if (expected === "cancelled" && run.state === "EXECUTING") {
        await client.unary(Mosaic.method.cancelRun, { run: runId });
      }
      if (!["TERMINATED", "CANCELLED", "FAULTED"].includes(run.state)) continue;
      live.delete(runId);
      const well = expected === "cancelled"
        ? run.state === "CANCELLED"
        : run.state === "TERMINATED" && run.telemetry?.steps === 200n;
      if (well) told[expected === "cancelled" ? "cancelled" : "ended"]++;
      else told.wrong.push(`${runId}: ${run.state} ${run.reason}, ${run.telemetry?.steps} steps`);
    }
  };
  const deleteOld = async () => {
    const { runs } = await client.unary(Mosaic.method.listRuns, { limit: 1000 });
    for (const run of runs) {
      const ended = run.finishedAt === undefined ? Infinity : Number(run.finishedAt.seconds) * 1000;
      if (live.has(run.runId) || Date.now() - ended < KEPT_MS) continue;
      await client.unary(Mosaic.method.deleteRun, { run: run.runId });
      told.deleted++;
    }
  };
  const call = async () => {
    const visitor = new MosaicClient(socket);
    await visitor.unary(Mosaic.method.listRuns, { limit: 20 });
    visitor.close();
    told.calls++;
  };
  const program = async () => {
    const { success } = await new Deno.Command(PROGRAM[0]!, {
      args: [...PROGRAM.slice(1), "list", "--state-dir", daemon.stateDir],
      stdout: "null",
    }).output();
    if (!success) told.wrong.push("mosaic list failed");
  };
  const page = async () => {
    for (const path of ["/", "/api/runs", "/api/host", "/metrics"]) {
      await (await fetch(`http://${daemon.http}${path}`)).text();
    }
    const follower = new AbortController();
    const stream = await fetch(`http://${daemon.http}/api/live`, { signal: follower.signal });
    setTimeout(() => follower.abort(), PAGE_FOLLOWS_MS);
    try {
      await stream.text();
    } catch {
      // Aborted above, as when a person closes a tab.
    }
  };

  const samples: Sample[] = [];
  const sample = async () => {
    const figures = processFigures(daemon.pid);
    if (figures === undefined) {
      throw new Error(`the daemon is gone:\n${daemon.output().slice(-2000)}`);
    }
    const { runs } = await client.unary(Mosaic.method.listRuns, { limit: 1000 });
    samples.push({
      minutes: (performance.now() - start) / 60_000,
      rssMiB: figures.rssBytes / 2 ** 20,
      heapMiB: await heapUsed(daemon.http) / 2 ** 20,
      descriptors: [...Deno.readDirSync(`/proc/${daemon.pid}/fd`)].length,
      walMiB: sizeOf(`${telemetry}-wal`) / 2 ** 20,
      databaseMiB: sizeOf(telemetry) / 2 ** 20,
      runs: runs.length,
      cpuSeconds: figures.cpuSeconds,
    });
    write(samples);
  };

  const streaming = await bench.submitCommand(awk("n=100000000", "pace=0.4"));
  await Promise.all([
    repeatedly(everySeconds * 1000, submit),
    repeatedly(1000, watchEnds),
    repeatedly(1000, call),
    repeatedly(10_000, program),
    repeatedly(10_000, page),
    repeatedly(60_000, deleteOld),
    repeatedly(SAMPLE_MS, sample),
  ]);
  while (live.size > 0) {
    await watchEnds();
    await pause(200);
  }
  await client.unary(Mosaic.method.cancelRun, { run: streaming });
  report(samples, told);
  return told.wrong.length === 0 ? 0 : 1;
}

const started = new Date().toISOString().replaceAll(/[-:]|\..*/g, "");
const directory = new URL("results/", import.meta.url).pathname;
const COLUMNS = [
  "minutes",
  "rssMiB",
  "heapMiB",
  "descriptors",
  "walMiB",
  "databaseMiB",
  "runs",
  "cpuSeconds",
] as const;

function write(samples: readonly Sample[]): void {
  Deno.mkdirSync(directory, { recursive: true });
  const rows = samples.map((s) => COLUMNS.map((column) => s[column].toFixed(2)).join(","));
  Deno.writeTextFileSync(
    `${directory}soak-${started}.csv`,
    [COLUMNS.join(","), ...rows, ""].join("\n"),
  );
  Deno.writeTextFileSync(`${directory}soak-${started}.svg`, picture(samples));
}

/** Resident memory over time. */
function picture(samples: readonly Sample[]): string {
  const [width, height, left, bottom] = [760, 260, 50, 30];
  const most = Math.max(50, ...samples.map((s) => s.rssMiB)) * 1.1;
  const last = samples.at(-1)?.minutes || 1;
  const x = (minutes: number) => left + minutes / last * (width - left - 10);
  const y = (mib: number) => height - bottom - mib / most * (height - bottom - 20);
  const line = samples.map((s) => `${x(s.minutes).toFixed(1)},${y(s.rssMiB).toFixed(1)}`).join(" ");
  const grid = Array.from({ length: Math.floor(most / 50) + 1 }, (_, i) => i * 50).map((mib) =>
    `<line x1="${left}" x2="${width - 10}" y1="${y(mib)}" y2="${y(mib)}" stroke="#ddd"/>` +
    `<text x="${left - 6}" y="${y(mib) + 4}" text-anchor="end">${mib}</text>`
  ).join("");
  const hours = Array.from({ length: 7 }, (_, i) => i / 6 * last).map((minutes) =>
    `<text x="${x(minutes)}" y="${height - 10}" text-anchor="middle">${Math.round(minutes)}</text>`
  ).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">` +
    `<rect width="${width}" height="${height}" fill="white"/>${grid}${hours}` +
    `<text x="${left}" y="12">daemon, resident memory (MiB) over minutes of mixed load</text>` +
    `<polyline fill="none" stroke="#1668a8" stroke-width="1.5" points="${line}"/></svg>\n`;
}

function report(samples: readonly Sample[], told: Told): void {
  const { wrong, ...counts } = told;
  console.log(JSON.stringify(counts));
  for (let quarter = 0; quarter < 4; quarter++) {
    const of = samples.slice(
      Math.floor(quarter * samples.length / 4),
      Math.floor((quarter + 1) * samples.length / 4),
    );
    const middle = (column: keyof Sample) => median(of.map((s) => s[column])).toFixed(1);
    console.log(
      `quarter ${quarter + 1}: ${middle("rssMiB")} MiB (heap ${middle("heapMiB")}), ${
        middle("descriptors")
      } descriptors, WAL ${middle("walMiB")} MiB, ` +
        `database ${middle("databaseMiB")} MiB, ${middle("runs")} runs`,
    );
  }
  for (const line of wrong.slice(0, 20)) console.error(`wrong: ${line}`);
  console.error(`written to ${directory}soak-${started}.csv and .svg`);
}

if (import.meta.main) {
  const { values } = taskArguments(import.meta.url, {
    minutes: { type: "string", default: "180" },
    every: { type: "string", default: "2" },
  });
  Deno.exit(await soak(above0("minutes", values.minutes), above0("every", values.every)));
}

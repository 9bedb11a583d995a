/** Samples what each live run's processes and GPUs use, as metrics `system/…` of the run. */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { type GpuUsage, processesOf, type ProcessUsage, readGpus, readProcesses } from "../os/processes/usage.ts";
import type { RunRow } from "../registry/row_types.ts";
import type { TelemetryLog } from "../telemetry/telemetry_log.ts";

const INTERVAL_MS = 15_000;
/** Samples become less frequent as a run gets older: about this many in its first hours, and few more over weeks. */
const SAMPLES = 1000;

interface Before {
  attempt: number;
  at: number;
  /** Processor time by pid, for processes in this and in the last sample. */
  ticks: Map<number, number>;
}

export interface UsageSamplesOptions {
  live: () => RunRow[];
  telemetry: Pick<TelemetryLog, "sample">;
  log: Logger;
}

/** Whether the run's next sample is due. @param age of the attempt, milliseconds @param since the last sample */
export function isDue(age: number, since: number): boolean {
  return since >= Math.max(INTERVAL_MS, age / SAMPLES) * 0.9;
}

/** A sample's points. The share of processors is measured since the last sample: 100 is one processor. */
export function pointsOf(
  processes: readonly ProcessUsage[],
  before: Before | undefined,
  at: number,
  gpus: readonly GpuUsage[],
): [name: string, value: number][] {
  const points: [string, number][] = [];
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  if (before !== undefined && at > before.at) {
    // For a new process, all of its time counts; for one that has ended, none is known.
    const ticks = sum(processes.map((p) => Math.max(0, p.ticks - (before.ticks.get(p.pid) ?? 0))));
    points.push(["system/cpu_percent", ticks * 1000 / (at - before.at)]);
  }
  points.push(["system/memory_mb", sum(processes.map((p) => p.residentBytes)) / (1 << 20)]);
  points.push(["system/processes", processes.length]);
  if (gpus.length > 0) {
    points.push(["system/gpu_percent", sum(gpus.map((g) => g.percent)) / gpus.length]);
    points.push(["system/gpu_memory_mb", sum(gpus.map((g) => g.memoryMb))]);
  }
  return points;
}

/** @returns ends it, after the current sample */
export function startUsageSamples({ live, telemetry, log }: UsageSamplesOptions): { close(): Promise<void> } {
  const before = new Map<string, Before>();
  const closing = new AbortController();
  const sample = async () => {
    const now = Date.now();
    const runs = live().filter(({ runId, attempt, worker, placement, startedAt }) => {
      const last = before.get(runId);
      const since = last?.attempt === attempt ? now - last.at : Infinity;
      return worker !== null && placement === null && isDue(now - (startedAt ?? now), since);
    });
    const ids = new Set(live().map(({ runId }) => runId));
    for (const id of before.keys()) if (!ids.has(id)) before.delete(id);
    if (runs.length === 0) return;
    const gpusRead = runs.some((run) => run.gpuSlots.length > 0)
      ? readGpus(closing.signal)
      : Promise.resolve(new Map<number, GpuUsage>());
    const all = await readProcesses();
    const at = Date.now();
    const gpus = await gpusRead;
    for (const { runId, attempt, worker, gpuSlots } of runs) {
      const processes = processesOf(worker!.pid, all);
      if (processes.length === 0) continue;
      const last = before.get(runId);
      const its = gpuSlots.flatMap((slot) => gpus.get(slot) ?? []);
      const points = pointsOf(processes, last?.attempt === attempt ? last : undefined, at, its);
      before.set(runId, { attempt, at, ticks: new Map(processes.map((p) => [p.pid, p.ticks])) });
      telemetry.sample(runId, attempt, points);
    }
  };
  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(sample).catch((error) => {
      log.debug(
        { error: messageOf(error) },
        "cannot sample the resource usage of runs; trying again at the next sample",
      );
    });
  }, INTERVAL_MS);
  return {
    async close() {
      clearInterval(timer);
      closing.abort();
      await running;
    },
  };
}

/** Samples what each live run's processes and GPUs use, as metrics `system/…` of the run. */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Engine } from "../dispatch/core/engine.ts";
import type { GpuPool } from "../dispatch/gpus/gpu_pool.ts";
import type { Card } from "../os/gpus/card.ts";
import { processesOf, type ProcessUsage, readProcesses } from "../os/processes/usage.ts";
import { type GpuTime, IDLE_PERCENT } from "../registry/gpus/gpu_use.ts";
import type { GpuReading } from "../os/gpus/gpu_tools.ts";
import type { RunRow } from "../registry/row_types.ts";
import type { TelemetryLog } from "../telemetry/telemetry_log.ts";

/** A driver that hangs does not hold up the figures of processes. */
const GPUS_MS = 5000;
const INTERVAL_MS = 15_000;
/** Samples become less frequent as a run gets older: about this many in its first hours, and few more over weeks. */
const SAMPLES = 1000;

/** Longest time for which one reading stands. */
const MOST_BETWEEN_MS = 180_000;

type GpuFigures = Pick<Card, "percent" | "usedMb" | "watts" | "celsius">;

interface Before {
  attempt: number;
  at: number;
  /** Processor time by pid, for processes in this and in the last sample. */
  ticks: Map<number, number>;
}

export interface UsageSamplesOptions {
  /** Live runs whose worker is known. */
  working: () => RunRow[];
  gpus: Pick<GpuPool, "readWithin" | "cardOf" | "newest">;
  telemetry: Pick<TelemetryLog, "sample">;
  /** Told of every sample; of figures of GPUs more often than they are stored. */
  sampled: Engine["sampled"];
  /** Adds to a run's GPU time. */
  count: (runId: string, time: GpuTime) => void;
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
  gpus: readonly GpuFigures[],
): [name: string, value: number][] {
  const points: [string, number][] = [];
  if (before !== undefined && at > before.at) {
    // For a new process, all of its time counts; for one that has ended, none is known.
    const ticks = sum(processes.map((p) => Math.max(0, p.ticks - (before.ticks.get(p.pid) ?? 0))));
    points.push(["system/cpu_percent", ticks * 1000 / (at - before.at)]);
  }
  points.push(["system/memory_mb", sum(processes.map((p) => p.residentBytes)) / (1 << 20)]);
  points.push(["system/processes", processes.length], ...gpuPoints(gpus));
  return points;
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

function gpuPoints(gpus: readonly GpuFigures[]): [name: string, value: number][] {
  const points: [string, number][] = [];
  // Of several cards: what a card does not say is no zero.
  const add = (name: string, figures: readonly (number | null)[], join: (known: readonly number[]) => number) => {
    const known = figures.filter((value) => value !== null);
    if (known.length > 0) points.push([name, join(known)]);
  };
  add("system/gpu_percent", gpus.map(({ percent }) => percent), (known) => sum(known) / known.length);
  add("system/gpu_memory_mb", gpus.map(({ usedMb }) => usedMb), sum);
  add("system/gpu_power_w", gpus.map(({ watts }) => watts), sum);
  add("system/gpu_temperature_c", gpus.map(({ celsius }) => celsius), (known) => Math.max(...known));
  return points;
}

/** Of the time since the last reading. */
export function timeOf(gpus: readonly Pick<Card, "percent">[], ms: number): GpuTime {
  const known = gpus.filter(({ percent }) => percent !== null);
  return { measuredMs: ms * known.length, idleMs: ms * known.filter(({ percent }) => percent! < IDLE_PERCENT).length };
}

/** @returns ends it, after the current sample */
export function startUsageSamples(
  { working, gpus, telemetry, sampled, count, log }: UsageSamplesOptions,
): { close(): Promise<void> } {
  const before = new Map<string, Before>();
  const noted = new Map<string, { attempt: number; reading: number; at: number }>();
  /** For alerts and GPU time, of all runs with cards: the driver is asked anyway, from time to time. */
  const noteGpus = (reading: GpuReading) => {
    const runs = working().filter(({ gpuSlots }) => gpuSlots.length > 0);
    const ids = new Set(runs.map(({ runId }) => runId));
    for (const id of noted.keys()) if (!ids.has(id)) noted.delete(id);
    for (const { runId, attempt, gpuSlots } of runs) {
      const last = noted.get(runId);
      if (last?.attempt === attempt && last.reading === reading.at) continue;
      const at = performance.now();
      noted.set(runId, { attempt, reading: reading.at, at });
      const its = gpuSlots.flatMap((slot) => gpus.cardOf(slot, reading) ?? []);
      const ms = last?.attempt === attempt ? Math.min(MOST_BETWEEN_MS, at - last.at) : 0;
      count(runId, timeOf(its, ms));
      sampled(runId, attempt, gpuPoints(its));
    }
  };
  const sample = async () => {
    const now = Date.now();
    const live = working();
    const runs = live.filter(({ runId, attempt, placement, startedAt }) => {
      const last = before.get(runId);
      const since = last?.attempt === attempt ? now - last.at : Infinity;
      return placement === null && isDue(now - (startedAt ?? now), since);
    });
    const ids = new Set(live.map(({ runId }) => runId));
    for (const id of before.keys()) if (!ids.has(id)) before.delete(id);
    if (runs.length === 0) {
      if (gpus.newest !== undefined) noteGpus(gpus.newest);
      return;
    }
    const gpusRead = runs.some((run) => run.gpuSlots.length > 0) ? gpus.readWithin(GPUS_MS) : undefined;
    const all = await readProcesses();
    const at = Date.now();
    const reading = await gpusRead;
    const newest = reading ?? gpus.newest;
    if (newest !== undefined) noteGpus(newest);
    for (const { runId, attempt, worker, gpuSlots } of runs) {
      const processes = processesOf(worker!.pid, all);
      if (processes.length === 0) continue;
      const last = before.get(runId);
      const its = reading === undefined ? [] : gpuSlots.flatMap((slot) => gpus.cardOf(slot, reading) ?? []);
      const points = pointsOf(processes, last?.attempt === attempt ? last : undefined, at, its);
      before.set(runId, { attempt, at, ticks: new Map(processes.map((p) => [p.pid, p.ticks])) });
      telemetry.sample(runId, attempt, points);
      sampled(runId, attempt, points.filter(([name]) => !name.startsWith("system/gpu_")));
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
      await running;
    },
  };
}

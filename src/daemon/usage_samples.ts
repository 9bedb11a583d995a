/** Samples what each live run's processes and GPUs use, as metrics `system/…` of the run. */
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Engine } from "../dispatch/core/engine.ts";
import type { GpuPool } from "../dispatch/gpus/gpu_pool.ts";
import type { Card, GpuProcess } from "../os/gpus/card.ts";
import { processesOf, type ProcessUsage, readProcesses } from "../os/processes/usage.ts";
import type { NewShare } from "../registry/gpus/gpu_rows.ts";
import { type GpuTime, IDLE_PERCENT } from "../registry/gpus/gpu_use.ts";
import type { GpuReading } from "../os/gpus/gpu_tools.ts";
import type { RunRow } from "../registry/row_types.ts";
import type { TelemetryLog } from "../telemetry/telemetry_log.ts";

/** A driver that hangs does not hold up the figures of processes. */
const GPUS_MS = 5000;
const INTERVAL_MS = 15_000;
/**
 * Samples become less frequent as a run gets older: about this many in its first hours, and few
 * more over weeks.
 */
const SAMPLES = 1000;

/** Longest time for which one reading stands. */
const MOST_BETWEEN_MS = 180_000;

type GpuFigures =
  & Pick<Card, "percent" | "usedMb" | "watts" | "celsius">
  & Partial<Pick<Card, "eccErrors" | "slowedBy">>
  & {
    /** Of the card, or what the run has declared of it. */
    memoryMb?: number | null;
    /** Errors of the card since the run has it. */
    errors?: number;
  };

/** A higher peak is stored if it is higher by this factor. */
const HIGHER = 1.01;

/**
 * A card that has not answered, or a MIG device, of which only the memory of its processes is
 * known.
 */
const NO_CARD: Omit<GpuFigures, "memoryMb"> & { memoryMb: null } = {
  ...{ percent: null, usedMb: null, watts: null, celsius: null, memoryMb: null },
};

const isShared = ({ gpuShare, gpuMemoryMb }: RunRow) => gpuShare !== null || gpuMemoryMb !== null;

interface Before {
  attempt: number;
  at: number;
  /** Processor time by pid, for processes in this and in the last sample. */
  ticks: Map<number, number>;
}

export interface UsageSamplesOptions {
  /** Live runs whose worker is known. */
  working: () => RunRow[];
  gpus: Pick<
    GpuPool,
    "readWithin" | "cardOf" | "deviceOf" | "newest" | "processes" | "errorsOf"
  >;
  telemetry: Pick<TelemetryLog, "sample">;
  /** Told of every sample; of figures of GPUs more often than they are stored. */
  sampled: Engine["sampled"];
  /** Adds to a run's GPU time. */
  count: (runId: string, time: GpuTime) => void;
  /** What a run has of cards that it shares. */
  sharesOf: (runId: string) => readonly NewShare[];
  /** A run has used more memory of GPUs than before, MiB. */
  peak: (runId: string, mb: number) => void;
  log: Logger;
}

/**
 * Whether the run's next sample is due. @param age of the attempt, milliseconds @param since the
 * last sample
 */
export function isDue(age: number, since: number): boolean {
  return since >= Math.max(INTERVAL_MS, age / SAMPLES) * 0.9;
}

/**
 * A sample's points. The share of processors is measured since the last sample: 100 is one
 * processor.
 */
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
  const add = (
    name: string,
    figures: readonly (number | null)[],
    join: (known: readonly number[]) => number,
  ) => {
    const known = figures.filter((value) => value !== null);
    if (known.length > 0) points.push([name, join(known)]);
  };
  add(
    "system/gpu_percent",
    gpus.map(({ percent }) => percent),
    (known) => sum(known) / known.length,
  );
  add("system/gpu_memory_mb", gpus.map(({ usedMb }) => usedMb), sum);
  const filled = gpus.flatMap(({ usedMb, memoryMb }) =>
    usedMb !== null && memoryMb ? [100 * usedMb / memoryMb] : []
  );
  add("system/gpu_memory_percent", filled, (known) => Math.max(...known));
  add("system/gpu_power_w", gpus.map(({ watts }) => watts), sum);
  add(
    "system/gpu_temperature_c",
    gpus.map(({ celsius }) => celsius),
    (known) => Math.max(...known),
  );
  add("system/gpu_ecc_errors", gpus.map(({ eccErrors }) => eccErrors ?? null), sum);
  const slowed = gpus.map(({ slowedBy }) =>
    typeof slowedBy === "string" ? +(slowedBy !== "") : null
  );
  add("system/gpu_throttled", slowed, sum);
  const errors = sum(gpus.map((gpu) => gpu.errors ?? 0));
  if (errors > 0) points.push(["system/gpu_errors", errors]);
  return points;
}

/** Of the time since the last reading. @param gpus with the part that the run has of each */
export function timeOf(
  gpus: readonly (Pick<Card, "percent"> & { part?: number })[],
  ms: number,
): GpuTime {
  const known = gpus.filter(({ percent }) => percent !== null);
  const time = (of: typeof known) => ms * sum(of.map(({ part = 1 }) => part));
  return {
    measuredMs: time(known),
    idleMs: time(known.filter(({ percent }) => percent! < IDLE_PERCENT)),
  };
}

/**
 * A run's own part of a card: the memory that its processes use there, of that which it has
 * declared.
 */
export function shareOf(
  card: GpuFigures,
  uuid: string,
  { part, memoryMb }: Pick<NewShare, "part" | "memoryMb">,
  own: readonly ProcessUsage[],
  processes: readonly GpuProcess[] | undefined,
): GpuFigures & { part: number } {
  const pids = new Set(own.map(({ pid }) => pid));
  const its = (processes ?? []).filter((process) =>
    uuid !== "" && process.uuid === uuid && pids.has(process.pid)
  );
  const known = processes !== undefined && its.every(({ usedMb }) => usedMb !== null);
  return { ...card, part, memoryMb, usedMb: known ? sum(its.map(({ usedMb }) => usedMb!)) : null };
}

/** @returns ends it, after the current sample */
export function startUsageSamples(
  { working, gpus, telemetry, sampled, count, sharesOf, peak, log }: UsageSamplesOptions,
): { close(): Promise<void> } {
  const before = new Map<string, Before>();
  const noted = new Map<string, { attempt: number; reading: number; at: number }>();
  /** By run and attempt: errors that its cards had had when it was first sampled. */
  const errorsBefore = new Map<string, Map<number, number>>();
  const errorsSince = ({ runId, attempt }: RunRow, slot: number) => {
    const key = `${runId} ${attempt}`;
    const before = errorsBefore.get(key) ?? new Map<number, number>();
    errorsBefore.set(key, before);
    const now = gpus.errorsOf(slot);
    if (!before.has(slot)) before.set(slot, now);
    return now - before.get(slot)!;
  };
  /** Of the run's cards; of cards that it shares, its own part. */
  const figuresOf = (
    run: RunRow,
    reading: GpuReading,
    all: readonly ProcessUsage[],
    processes: readonly GpuProcess[] | undefined,
  ): ReturnType<typeof shareOf>[] => {
    if (!isShared(run)) {
      return run.gpuSlots.map((slot) => ({
        part: 1,
        ...gpus.cardOf(slot, reading) ?? NO_CARD,
        errors: errorsSince(run, slot),
      }));
    }
    const own = processesOf(run.worker!.pid, all);
    return sharesOf(run.runId).flatMap((share) => {
      const card = gpus.cardOf(share.slot, reading) ?? NO_CARD;
      const its = shareOf(card, gpus.deviceOf(share.slot)?.uuid ?? "", share, own, processes);
      return { ...its, errors: errorsSince(run, share.slot) };
    });
  };
  /**
   * For alerts and GPU time, of all runs with cards: the driver is asked anyway, from time to time.
   */
  const noteGpus = (
    reading: GpuReading,
    figures: (run: RunRow, reading: GpuReading) => ReturnType<typeof shareOf>[],
  ) => {
    const runs = working().filter(({ gpuSlots }) => gpuSlots.length > 0);
    const ids = new Set(runs.map(({ runId }) => runId));
    for (const id of noted.keys()) if (!ids.has(id)) noted.delete(id);
    for (const key of errorsBefore.keys()) {
      if (!ids.has(key.slice(0, key.lastIndexOf(" ")))) errorsBefore.delete(key);
    }
    for (const run of runs) {
      const { runId, attempt } = run;
      const last = noted.get(runId);
      if (last?.attempt === attempt && last.reading === reading.at) continue;
      const at = performance.now();
      noted.set(runId, { attempt, reading: reading.at, at });
      const its = figures(run, reading);
      const ms = last?.attempt === attempt ? Math.min(MOST_BETWEEN_MS, at - last.at) : 0;
      count(runId, timeOf(its, ms));
      sampled(runId, attempt, gpuPoints(its));
      const used = its.flatMap(({ usedMb }) => usedMb ?? []);
      if (used.length > 0 && sum(used) > HIGHER * (run.gpuPeakMb ?? 0)) peak(runId, sum(used));
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
    const share = live.some((run) => run.gpuSlots.length > 0 && isShared(run));
    if (runs.length === 0 && !share) {
      if (gpus.newest !== undefined) {
        noteGpus(gpus.newest, (run, reading) => figuresOf(run, reading, [], undefined));
      }
      return;
    }
    const gpusRead = share || runs.some((run) => run.gpuSlots.length > 0)
      ? gpus.readWithin(GPUS_MS)
      : undefined;
    const all = await readProcesses();
    const at = Date.now();
    const reading = await gpusRead;
    // Which process uses how much: a second call of the driver's tool, for runs that share cards
    // only.
    const gpuProcesses = share && reading?.tool === true ? await gpus.processes() : undefined;
    const newest = reading ?? gpus.newest;
    const figures = (run: RunRow, of: GpuReading) => figuresOf(run, of, all, gpuProcesses);
    if (newest !== undefined) noteGpus(newest, figures);
    for (const run of runs) {
      const { runId, attempt, worker } = run;
      const processes = processesOf(worker!.pid, all);
      if (processes.length === 0) continue;
      const last = before.get(runId);
      const its = reading === undefined ? [] : figures(run, reading);
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

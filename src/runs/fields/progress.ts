/** A run's progress and estimated time to its end. */
import { compact, duration } from "../../base/text/format.ts";

export interface ProgressInput {
  state: string;
  steps: number;
  /** 0: unknown. */
  maxSteps: number;
  stepsPerSecond: number;
  /** By the program's own bars, 0 to 1. */
  part?: number | null;
  /** Since the attempt's start, milliseconds. */
  elapsedMs?: number | null;
}

/** 0 to 1; undefined if the end is unknown. */
export function fraction(run: ProgressInput): number | undefined {
  if (run.state === "TERMINATED") return 1;
  return run.maxSteps > 0 ? Math.min(1, run.steps / run.maxSteps) : run.part ?? undefined;
}

/**
 * Milliseconds to the end at the current rate; undefined unless the run is executing with a known
 * end.
 */
export function eta(run: ProgressInput): number | undefined {
  // A paused run makes no progress, so it has no estimate.
  if (run.state !== "EXECUTING") return undefined;
  if (run.maxSteps === 0) {
    return run.part && run.elapsedMs ? run.elapsedMs * (1 / run.part - 1) : undefined;
  }
  if (!(run.stepsPerSecond > 0)) return undefined;
  return (Math.max(0, run.maxSteps - run.steps) / run.stepsPerSecond) * 1000;
}

/** "█████▌    " */
export function bar(part: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, part)) * width * 8);
  const full = Math.floor(eighths / 8);
  const rest = eighths % 8;
  return ("█".repeat(full) + (rest === 0 ? "" : " ▏▎▍▌▋▊▉"[rest]!)).padEnd(width);
}

/**
 * "62% 12k/20k ETA 3m 07s", after a bar if it has a width; only the step count if the end is
 * unknown.
 */
export function progressText(run: ProgressInput, barWidth = 0): string {
  const part = fraction(run);
  if (part === undefined || (run.maxSteps === 0 && run.part == null)) {
    return `${compact(run.steps)} steps`;
  }
  const left = eta(run);
  const percent = `${Math.floor(part * 100)}%`;
  return [
    ...(barWidth === 0 ? [percent] : [bar(part, barWidth), percent.padStart(4)]),
    ...(run.maxSteps === 0 ? [] : [`${compact(run.steps)}/${compact(run.maxSteps)}`]),
    ...(left === undefined ? [] : [`ETA ${duration(left)}`]),
  ].join(" ");
}

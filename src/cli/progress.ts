/** How far a run is, and when it will be done. */
import { compact, duration } from "./format.ts";

export interface ProgressInput {
  state: string;
  steps: number;
  /** 0: not known. */
  maxSteps: number;
  stepsPerSecond: number;
}

/** 0 to 1; undefined where the end is not known. */
export function fraction(run: ProgressInput): number | undefined {
  if (run.state === "TERMINATED") return 1;
  return run.maxSteps > 0 ? Math.min(1, run.steps / run.maxSteps) : undefined;
}

/** Milliseconds to the end at the present rate; undefined unless the run is training towards a known end. */
export function eta(run: ProgressInput): number | undefined {
  // A run that is held makes no progress: any figure would be wrong as soon as it is read.
  if (run.state !== "EXECUTING" || run.maxSteps === 0 || !(run.stepsPerSecond > 0)) return undefined;
  return (Math.max(0, run.maxSteps - run.steps) / run.stepsPerSecond) * 1000;
}

/** "█████▌    " */
export function bar(part: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, part)) * width * 8);
  const full = Math.floor(eighths / 8);
  const rest = eighths % 8;
  return ("█".repeat(full) + (rest === 0 ? "" : " ▏▎▍▌▋▊▉"[rest]!)).padEnd(width);
}

/** "██████    62% 12k/20k ETA 3m 07s"; only the count of steps where no end is known. */
export function progressText(run: ProgressInput, width = 10): string {
  const part = fraction(run);
  if (part === undefined || run.maxSteps === 0) return `${compact(run.steps)} steps`;
  const left = eta(run);
  const tail = left === undefined ? "" : ` ETA ${duration(left)}`;
  return `${bar(part, width)} ${String(Math.floor(part * 100)).padStart(3)}% ${compact(run.steps)}/${
    compact(run.maxSteps)
  }${tail}`;
}

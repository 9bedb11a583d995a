/** How far a long command is, as a line of text. */
import { bytes, count, duration, rate } from "./format.ts";

export interface Step {
  /** What is done, such as "steps". */
  name: string;
  /** What is counted: "bytes", or things. */
  unit: string;
  done: number;
  /** 0: unknown. */
  total: number;
}

/** Is told how far a step is, each time that something of it is done. */
export type OnProgress = (step: Step) => void;

/** "steps: 1,000 of 4,000 records  25%  500/s  6.0s left". @param elapsedMs since the step began */
export function progressLine({ name, unit, done, total }: Step, elapsedMs: number): string {
  const isBytes = unit === "bytes";
  const size = isBytes ? bytes : count;
  const known = total > 0;
  const reached = known ? Math.min(done, total) : done;
  const perSecond = elapsedMs > 0 ? done / (elapsedMs / 1000) : 0;
  return [
    `${name}: ${size(reached)}${known ? ` of ${size(total)}` : ""}${isBytes ? "" : ` ${unit}`}`,
    ...known ? [`${Math.floor((reached / total) * 100)}%`] : [],
    ...perSecond > 0 ? [isBytes ? `${bytes(perSecond)}/s` : rate(perSecond)] : [],
    ...known && perSecond > 0 && reached < total
      ? [`${duration(((total - reached) / perSecond) * 1000)} left`]
      : [],
  ].join("  ");
}

/** What lists show of a sweep's spec. Pure. */
import { namesOf, trialCount } from "./points.ts";
import type { SweepSpec } from "./spec.ts";

export interface SpecOutline extends Pick<SweepSpec, "budget"> {
  total: number;
  parameters: string[];
  seeds: string[];
  max_parallel: number | null;
  metric: NonNullable<SweepSpec["metric"]> | null;
  stop: NonNullable<SweepSpec["stop"]> | null;
}

export function specOutline(spec: SweepSpec): SpecOutline {
  return {
    total: trialCount(spec),
    parameters: namesOf(spec),
    seeds: [...seedsOf(spec)],
    max_parallel: spec.max_parallel ?? null,
    budget: spec.budget,
    metric: spec.metric ?? null,
    stop: spec.stop ?? null,
  };
}

export const seedsOf = ({ parts }: SweepSpec) =>
  new Set(parts.flatMap(({ seeds }) => seeds === undefined ? [] : [seeds.name]));

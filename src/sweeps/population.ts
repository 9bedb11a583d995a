/**
 * Population based training: at a rung, a trial of the worst part gives its place to a further
 * trial, which begins with the checkpoint of one of the best and with that one's parameters,
 * changed a little. Pure: the same log gives the same trials.
 */
import { axisValues, chance, valueOf, valuesAt } from "./points.ts";
import type { Distribution, Origin, SweepSpec, Value } from "./spec.ts";
import type { Goal, Report } from "./stopping.ts";

/**
 * How often a parameter is drawn anew, as if it were a first trial's, instead of being changed a
 * little.
 */
const ANEW = 0.25;
const FACTORS = [0.8, 1.2] as const;

export interface Successor {
  values: Record<string, Value>;
  origin: Origin;
}

/**
 * @param earlier the reports of other trials at this rung @param trial number of the new trial
 * @returns undefined if there is no better one
 */
export function successorOf(
  spec: SweepSpec,
  goal: Goal,
  earlier: readonly Report[],
  report: Report,
  trial: number,
): Successor | undefined {
  const sign = goal === "max" ? -1 : 1;
  const better = earlier.filter(({ value }) =>
    Number.isFinite(value) && !(sign * value >= sign * report.value)
  )
    .toSorted((a, b) => sign * (a.value - b.value) || a.trial - b.trial);
  const best = better.slice(
    0,
    Math.max(1, Math.floor((earlier.length + 1) / spec.stop!.reduction)),
  );
  const chosen = best[Math.floor(chance(`${trial}:from`) * best.length)];
  if (chosen === undefined) return undefined;
  const spaces = spacesOf(spec);
  const values = Object.fromEntries(
    [...valuesAt(spec, chosen.trial)].map((
      [name, value],
    ) => [name, changed(value, spaces.get(name), `${trial}:${name}`)]),
  );
  return { values, origin: { trial: chosen.trial, rung: report.rung } };
}

/** The sweep with a further trial. */
export function withSuccessor(spec: SweepSpec, { values, origin }: Successor): SweepSpec {
  const last = spec.parts.at(-1)!;
  if (last.origins === undefined) {
    return { ...spec, parts: [...spec.parts, { axes: [], rows: [values], origins: [origin] }] };
  }
  const more = { ...last, rows: [...last.rows!, values], origins: [...last.origins, origin] };
  return { ...spec, parts: [...spec.parts.slice(0, -1), more] };
}

/** What the values of each parameter may be; seeds have none, and are passed on as they are. */
function spacesOf({ parts }: SweepSpec): Map<string, Distribution> {
  const spaces = new Map<string, Distribution>();
  for (const { axes, draws, rows, origins } of parts) {
    if (origins !== undefined) continue;
    const listed = new Map(axes.map((axis) => [axis.name, axisValues(axis)]));
    for (const row of rows ?? []) {
      for (const [name, value] of Object.entries(row)) {
        listed.set(name, [...listed.get(name) ?? [], value]);
      }
    }
    for (const { name, distribution } of draws?.space ?? []) spaces.set(name, distribution);
    for (const [name, values] of listed) {
      if (!spaces.has(name)) spaces.set(name, { type: "choice", values });
    }
  }
  return spaces;
}

/** A number times 0.8 or 1.2, within its bounds; of a list, a neighbour. */
function changed(value: Value, space: Distribution | undefined, seed: string): Value {
  if (space === undefined) return value;
  if (chance(`${seed}:anew`) < ANEW) return valueOf(space, chance(`${seed}:value`));
  const up = chance(`${seed}:up`) < 0.5 ? 0 : 1;
  if (space.type === "choice") {
    const at = space.values.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return space.values[Math.min(space.values.length - 1, Math.max(0, at + (up === 0 ? -1 : 1)))]!;
  }
  const number = Number(value) * FACTORS[up]!;
  const within = Math.min(space.high, Math.max(space.low, number));
  if (space.type === "int") return Math.min(space.high, Math.max(space.low, Math.round(within)));
  const { quantum } = space;
  return Number(
    (quantum === undefined ? within : Math.round(within / quantum) * quantum).toPrecision(6),
  );
}

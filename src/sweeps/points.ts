/**
 * The trials of a sweep: a pure function of its spec and a trial's number, so that any daemon, at
 * any time, makes the same trial. Nothing is listed: a sweep of 100 000 trials takes as much memory
 * as one of ten.
 */
import { MosaicError } from "../base/errors.ts";
import { sha256 } from "../base/node_modules.ts";
import { typed } from "../config/parameters.ts";
import {
  type Axis,
  type Condition,
  type Distribution,
  MOST_TRIALS,
  type Origin,
  type Part,
  type SweepSpec,
  type Value,
} from "./spec.ts";

/** The values of one trial by name, the seed with them. */
export type Values = ReadonlyMap<string, Value>;

export function axisSize({ values, ranges }: Axis): number {
  if (values !== undefined) return values.length;
  return ranges!.reduce(
    (sum, [from, to, step]) => sum + Math.max(0, Math.floor((to - from) / step) + 1),
    0,
  );
}

function axisValue({ values, ranges }: Axis, at: number): Value {
  if (values !== undefined) return values[at]!;
  for (const [from, to, step] of ranges!) {
    const size = Math.max(0, Math.floor((to - from) / step) + 1);
    if (at < size) return from + at * step;
    at -= size;
  }
  throw new Error("beyond the axis");
}

/** All of them. @throws MosaicError `invalid_argument` for more than the bound of trials */
export function axisValues(axis: Axis): Value[] {
  const size = axisSize(axis);
  if (size <= MOST_TRIALS) return Array.from({ length: size }, (_, at) => axisValue(axis, at));
  throw new MosaicError(
    "invalid_argument",
    `these are ${size} numbers; there are at most ${MOST_TRIALS} trials`,
  );
}

/** Different points of a part, each tried with every seed. */
function pointsOf({ axes, rows, draws }: Part): number {
  return axes.reduce((product, axis) => product * axisSize(axis), 1) * (rows?.length ?? 1) *
    (draws?.count ?? 1);
}

const trialsOf = (part: Part) =>
  pointsOf(part) * (part.seeds === undefined ? 1 : axisSize(part.seeds));

/** @throws MosaicError `invalid_argument` for none, or for more than the bound */
export function trialCount(spec: Pick<SweepSpec, "parts">): number {
  const count = spec.parts.reduce((sum, part) => sum + trialsOf(part), 0);
  if (count >= 1 && count <= MOST_TRIALS) return count;
  throw new MosaicError(
    "invalid_argument",
    `the sweep has ${count} trials; it must have 1 to ${MOST_TRIALS}`,
    {
      hint:
        "Give fewer values or seeds, or try a random sample: --random N --space NAME=choice(…).",
    },
  );
}

/** Names that the sweep's trials have, in the order in which they were given. */
export function namesOf(spec: Pick<SweepSpec, "parts">): string[] {
  return [
    ...new Set(spec.parts.flatMap(({ axes, rows, draws, seeds }) => [
      ...axes.map(({ name }) => name),
      ...new Set((rows ?? []).flatMap((row) => Object.keys(row))),
      ...(draws?.space ?? []).map(({ name }) => name),
      ...(seeds === undefined ? [] : [seeds.name]),
    ])),
  ];
}

/** @param trial from 0; @throws MosaicError `out_of_range` beyond the last */
export function valuesAt(spec: Pick<SweepSpec, "parts">, trial: number): Values {
  let rest = trial;
  for (const part of spec.parts) {
    const size = trialsOf(part);
    if (rest < size) return valuesOf(part, rest);
    rest -= size;
  }
  throw new MosaicError("out_of_range", `the sweep has no trial ${trial}`);
}

/** Where a trial goes on from; undefined: it begins anew. */
export function originOf(spec: Pick<SweepSpec, "parts">, trial: number): Origin | undefined {
  let rest = trial;
  for (const part of spec.parts) {
    const size = trialsOf(part);
    if (rest < size) return part.origins?.[rest];
    rest -= size;
  }
  return undefined;
}

/** Whether early stopping leaves a trial alone. */
export function isUnstopped(spec: Pick<SweepSpec, "parts">, trial: number): boolean {
  let rest = trial;
  for (const part of spec.parts) {
    if (rest < trialsOf(part)) return part.unstopped === true;
    rest -= trialsOf(part);
  }
  return false;
}

/** The same for trials that differ in their seed only. */
export function pointAt(spec: Pick<SweepSpec, "parts">, trial: number): string {
  const seeds = new Set(spec.parts.flatMap(({ seeds }) => seeds === undefined ? [] : [seeds.name]));
  return JSON.stringify([...valuesAt(spec, trial)].filter(([name]) => !seeds.has(name)));
}

function valuesOf(part: Part, trial: number): Values {
  const { axes, rows, draws, seeds } = part;
  const points = pointsOf(part);
  let rest = trial % points;
  const chosen: [string, Value][] = [];
  for (const axis of axes.toReversed()) {
    const size = axisSize(axis);
    chosen.unshift([axis.name, axisValue(axis, rest % size)]);
    rest = Math.floor(rest / size);
  }
  if (draws !== undefined) {
    const draw = draws.from + rest % draws.count;
    const values = new Map(
      draws.space.map((one) => [one.name, drawn(one.distribution, draws.seed, draw, one.name)]),
    );
    chosen.push(...withoutInactive(values, draws.when ?? []));
    rest = Math.floor(rest / draws.count);
  }
  if (rows !== undefined) chosen.unshift(...Object.entries(rows[rest]!));
  if (seeds !== undefined) chosen.push([seeds.name, axisValue(seeds, Math.floor(trial / points))]);
  return new Map(chosen);
}

const meaning = (value: Value) => JSON.stringify(typeof value === "string" ? typed(value) : value);

/** Whether one of the values means the same: 64 and "64" do. */
export function isOneOf(value: Value, values: readonly Value[]): boolean {
  return values.some((one) => meaning(one) === meaning(value));
}

/** A parameter is inactive also if what it depends on is. */
function withoutInactive(values: Values, when: readonly Condition[]): Values {
  const left = new Map(values);
  for (let before = -1; before !== left.size;) {
    before = left.size;
    for (const { name, on, values: wanted } of when) {
      if (!left.has(on) || !isOneOf(left.get(on)!, wanted)) left.delete(name);
    }
  }
  return left;
}

/**
 * Each draw of each name is independent of all others, so a sweep that is extended keeps its
 * earlier draws.
 */
function drawn(distribution: Distribution, seed: number, draw: number, name: string): Value {
  return valueOf(distribution, chance(`${seed}:${draw}:${name}`));
}

/** A number from 0, below 1, with 53 bits: always the same for a text. */
export function chance(text: string): number {
  const bytes = sha256().update(text, "utf8").digest();
  return (bytes.readUInt32BE(0) * 2 ** 21 + (bytes.readUInt32BE(4) >>> 11)) / 2 ** 53;
}

/** @param u from 0, below 1 */
export function valueOf(distribution: Distribution, u: number): Value {
  switch (distribution.type) {
    case "choice":
      return distribution.values[Math.floor(u * distribution.values.length)]!;
    case "int":
      return distribution.low + Math.floor(u * (distribution.high - distribution.low + 1));
    case "uniform":
    case "log": {
      const { type, low, high, quantum } = distribution;
      const x = type === "uniform"
        ? low + u * (high - low)
        : Math.exp(Math.log(low) + u * (Math.log(high) - Math.log(low)));
      if (quantum !== undefined) return Number((Math.round(x / quantum) * quantum).toPrecision(12));
      // Six digits are enough for any parameter, and people read them.
      return Math.min(high, Math.max(low, Number(x.toPrecision(6))));
    }
  }
}

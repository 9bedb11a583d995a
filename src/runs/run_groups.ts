/**
 * Runs that differ only in their seed, or share a parameter or tags, as one row and one curve.
 * Pure.
 */
import { MosaicError } from "../base/errors.ts";
import { number } from "../base/text/format.ts";
import { didYouMean } from "../base/text/nearest.ts";
import {
  type Band,
  type Groupable,
  type GroupBy,
  groupOrder,
  groupsOf,
  spreadOf,
  together,
} from "../telemetry/series/groups.ts";
import type { CurveBucket } from "./curves.ts";

/** Parses `--group-by`. @throws {MosaicError} `invalid_argument` */
export function groupByOf(text: string): GroupBy {
  if (text === "name" || text === "tags") return text;
  if (text === "params") return "parameters";
  if (/^param\../.test(text)) return `parameter:${text.slice("param.".length)}`;
  const known = ["name", "params", "tags", "param.NAME"];
  throw new MosaicError("invalid_argument", `--group-by is "${text}".${didYouMean(text, known)}`, {
    hint: `It is one of ${known.join(", ")}.`,
  });
}

export interface Group<Member> {
  name: string;
  members: Member[];
}

/** Groups by name, with members in their original order. */
export function inGroups<Member>(
  members: readonly Member[],
  of: (member: Member) => Groupable,
  by: GroupBy,
): Group<Member>[] {
  const names = groupsOf(members.map(of), by);
  const groups = Map.groupBy(members.keys(), (i) => names[i]!);
  return [...groups].map(([name, places]) => ({ name, members: places.map((i) => members[i]!) }))
    .sort((a, b) => groupOrder(a.name, b.name));
}

/** Over the values of a group's members; null if none has one. */
export interface GroupValue {
  mean: number;
  /** Standard deviation of the sample; 0 for a single value. */
  sd: number;
  min: number;
  max: number;
  /** Number of members that have a value. */
  runs: number;
}

export function groupValue(values: readonly (number | null | undefined)[]): GroupValue | null {
  const known = values.filter((v) => typeof v === "number" && Number.isFinite(v)) as number[];
  if (known.length === 0) return null;
  const { middle, high } = spreadOf(known, "sd");
  return {
    mean: middle,
    sd: known.length === 1 ? 0 : high - middle,
    min: Math.min(...known),
    max: Math.max(...known),
    runs: known.length,
  };
}

/** `195.3 ± 4.2`; with the number of runs that have a value, if some have none. */
export function spreadText(value: GroupValue | null, members: number, text = number): string {
  if (value === null) return "";
  const { mean, sd, runs } = value;
  return `${text(mean)}${runs > 1 ? ` ± ${text(sd)}` : ""}${
    runs < members ? ` (${runs} of ${members})` : ""
  }`;
}

/** `3 TERMINATED, 1 FAULTED` */
export function statesText(states: readonly string[]): string {
  return [...Map.groupBy(states, (s) => s)].map(([state, of]) => `${of.length} ${state}`).join(
    ", ",
  );
}

/** The text if all are equal, else the number of different ones. */
export function commonText(texts: readonly string[]): string {
  const different = new Set(texts);
  return different.size === 1 ? [...different][0]! : `${different.size} different`;
}

export interface GroupPoint {
  x: number;
  mean: number;
  low: number;
  high: number;
  /** Number of runs that have a value there. */
  runs: number;
}

/** The curves of a group's runs as one. @param x position of a bucket */
export function groupPoints<Bucket extends CurveBucket>(
  curves: readonly (readonly Bucket[])[],
  x: (bucket: Bucket, curve: readonly Bucket[]) => number,
  band: Band,
): GroupPoint[] {
  const found = together(
    curves.map((curve) => ({
      x: curve.map((b) => x(b, curve)),
      y: curve.map(({ mean }) => Number.isFinite(mean) ? mean : null),
    })),
    band,
  );
  return found.x.flatMap((at, i) =>
    found.middle[i] === null ? [] : [{
      x: at,
      mean: found.middle[i]!,
      low: found.low[i]!,
      high: found.high[i]!,
      runs: found.count[i]!,
    }]
  );
}

/**
 * Axes of values that are numbers or texts: places, ticks, ranges that a person chooses, colours.
 * Pure.
 */
import { natural } from "../../../base/text/natural_order.ts";
import { ticksOf } from "../../../base/time/ticks.ts";
import { figure } from "../parts/format.ts";

export type Place = number | string;

/** Free share of an axis at each end, so that points are not on the frame. */
const FREE = 0.05;
const inside = (share: number) => FREE + share * (1 - 2 * FREE);

export interface Scale {
  /** 0 to 1. */
  at(value: Place): number;
  /** What lies between two places of the axis; undefined: nothing. */
  between(from: number, to: number): Range | undefined;
  ticks: { at: number; text: string }[];
  note: string;
}

/** Numbers from one to another, or these texts. */
export type Range = { from: number; to: number } | { texts: string[] };

export function isWithin(range: Range, value: Place): boolean {
  if ("texts" in range) return range.texts.includes(String(value));
  return typeof value === "number" && value >= range.from && value <= range.to;
}

export function rangeText(range: Range): string {
  return "texts" in range ? range.texts.join(", ") : `${figure(range.from)} to ${figure(range.to)}`;
}

/** `0.001 0.1`, or `relu, tanh`. @throws Error that says what is wrong */
export function rangeOf(text: string, isNumeric: boolean): Range {
  if (!isNumeric) {
    return { texts: text.split(",").map((one) => one.trim()).filter((one) => one !== "") };
  }
  const [from, to, ...more] = text.trim().split(/\s+/).map(Number);
  if (more.length === 0 && Number.isFinite(from) && Number.isFinite(to) && from! <= to!) {
    return { from: from!, to: to! };
  }
  throw new Error(`"${text}" is no range: write two numbers, the lower one first`);
}

/** Numbers by size (logarithmic if they span two decades), texts in their order. */
export function scaleOf(values: readonly Place[]): Scale {
  const numbers = values.filter((v) => typeof v === "number" && Number.isFinite(v)) as number[];
  if (numbers.length < values.length || values.length === 0) {
    const texts = [...new Set(values.map(String))].sort(natural);
    const place = (i: number) => inside(texts.length < 2 ? 0.5 : i / (texts.length - 1));
    return {
      at: (v) => place(texts.indexOf(String(v))),
      between: (from, to) => {
        const chosen = texts.filter((_, i) => place(i) >= from && place(i) <= to);
        return chosen.length === 0 ? undefined : { texts: chosen };
      },
      ticks: texts.length > 12 ? [] : texts.map((text, i) => ({ at: place(i), text })),
      note: "",
    };
  }
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  const log = low > 0 && high / low >= 100;
  const to = log ? Math.log10 : (n: number) => n;
  const span = to(high) - to(low);
  const at = (n: number) => inside(span === 0 ? 0.5 : (n - to(low)) / span);
  const free = span * FREE;
  const ticks = log
    ? ticksOf(to(low) - free, to(high) + free, 6).filter(Number.isInteger)
    : ticksOf(low - free, high + free, 5);
  return {
    at: (v) => at(to(v as number)),
    between: (from, end) => {
      const chosen = numbers.filter((n) => at(to(n)) >= from && at(to(n)) <= end);
      if (chosen.length === 0) return undefined;
      // The ends are values, so that a range stays what it is when the axis grows.
      return {
        from: chosen.reduce((a, b) => Math.min(a, b)),
        to: chosen.reduce((a, b) => Math.max(a, b)),
      };
    },
    ticks: ticks.map((n) => ({ at: at(n), text: figure(log ? 10 ** n : n) })),
    note: log ? " (logarithmic)" : "",
  };
}

/** A colour of the style sheet's scale. @param share 0 to 1 */
export function shadeAt(share: number): string {
  const [from, to, part] = share < 0.5 ? ["low", "mid", share * 2] : ["mid", "high", share * 2 - 1];
  return `color-mix(in oklab, var(--scale-${to}) ${
    Math.round(Math.max(0, Math.min(1, part as number)) * 100)
  }%, var(--scale-${from}))`;
}

/** Ranges by column, as a text in the address and back; what is no range is left out. */
export function rangesText(ranges: ReadonlyMap<string, Range>): string {
  return ranges.size === 0 ? "" : JSON.stringify(Object.fromEntries(ranges));
}

export function rangesFrom(text: string): Map<string, Range> {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return new Map();
  }
  if (typeof given !== "object" || given === null) return new Map();
  return new Map(
    Object.entries(given).flatMap(([id, range]): [string, Range][] => {
      const { from, to, texts } = range ?? {};
      if (Number.isFinite(from) && Number.isFinite(to)) return [[id, { from, to }]];
      return Array.isArray(texts) && texts.every((one) => typeof one === "string")
        ? [[id, { texts }]]
        : [];
    }),
  );
}

/**
 * Numbers as programs write them for people: `1,000`, `12k`, `3/10`, `71.5%`, `0.12s`. Pure, and
 * one pass over the text.
 */
import { numberOfText } from "./literal.ts";

export interface PeopleNumber {
  value: number;
  /** `10/1000`: 1000. */
  of: number | undefined;
}

const NUMBER = String
  .raw`[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?`;
const PER = String.raw`\/(?:s|sec|second|ms|h|it|iter|step|epoch|batch|sample|example|episode)`;
/**
 * Units change nothing: the value is the number before them, as it is printed. `m` is none:
 * minutes, metres or millions.
 */
const UNIT = String
  .raw`%%?|°C|(?:[µu]s|ns|ms|sec(?:ond)?s?|mins?|hours?|hrs?|s|h|dB|Hz|k?W|[kKMGT]i?B|its?|iters?|steps?|episodes?|ep|ex|examples?|samples?|imgs?|images|tok(?:en)?s?|frames?|fps|batch(?:es)?|px)(?:${PER})?|${PER}`;
const WORD = String.raw`[+-]?(?:[nN]a[nN]|[iI]nf(?:inity)?)(?![\w.])`;
const THOUSANDS: { readonly [suffix: string]: number } = {
  k: 1e3,
  K: 1e3,
  M: 1e6,
  B: 1e9,
  G: 1e9,
  T: 1e12,
};
const PEOPLE_NUMBER = new RegExp(
  String
    .raw`(${NUMBER})(?:\s?\/\s{0,12}(${NUMBER})(?![\w/.]))?(?:([kKMBGT])(?![A-Za-z]))?(?:\s?(?:${UNIT})(?![A-Za-z\d]))?|(${WORD})`,
  "y",
);

/**
 * The number that begins at `at`.
 * @returns undefined if there is none; `end` is behind its unit
 */
export function numberAt(text: string, at: number): (PeopleNumber & { end: number }) | undefined {
  PEOPLE_NUMBER.lastIndex = at;
  const found = PEOPLE_NUMBER.exec(text);
  if (found === null) return undefined;
  const [, number, total, suffix, word] = found;
  const end = PEOPLE_NUMBER.lastIndex;
  if (word !== undefined) return { value: numberOfText(word)!, of: undefined, end };
  const times = suffix === undefined ? 1 : THOUSANDS[suffix]!;
  return {
    value: plain(number!) * times,
    of: total === undefined ? undefined : plain(total) * times,
    end,
  };
}

/** The number that a whole text is; undefined if it is anything else. */
export function peopleNumber(text: string): PeopleNumber | undefined {
  const found = numberAt(text, 0);
  return found === undefined || found.end !== text.length
    ? undefined
    : { value: found.value, of: found.of };
}

function plain(text: string): number {
  return Number(text.replace(/[,_]/g, ""));
}

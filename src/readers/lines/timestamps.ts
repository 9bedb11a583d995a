/** Times of the dialects as Unix nanoseconds in decimal text; "" if a value is no time. */

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?$/i;
/** 1973: smaller numbers are counters or monotonic clocks, not dates. */
const FIRST_SECOND = 1e8;
const MAX_NS = 9_223_372_036_854_775_807n;

/** `ts_unix_ns`: digits are kept exactly. @param text the value as written, without quotes. */
export function nanosecondsOf(text: string): string {
  if (/^[1-9]\d{0,17}$/.test(text)) return text;
  const number = Number(text);
  if (!(number > 0) || !(number < 9.3e18)) return "";
  const whole = BigInt(/^\d+$/.test(text) ? text : Math.round(number));
  return whole > MAX_NS ? "" : whole.toString();
}

/**
 * `ts` and `timestamp`: seconds (also milliseconds, microseconds or nanoseconds, recognized by
 * their size) or ISO 8601, which is UTC if it names no offset.
 */
export function timeOf(value: unknown, text: string): string {
  if (typeof value === "string") return ISO.test(value) ? ofIso(value) : ofNumber(value.trim());
  return typeof value === "number" ? ofNumber(text) : "";
}

function ofNumber(text: string): string {
  const number = Number(text);
  if (!(number >= FIRST_SECOND)) return "";
  // 10^11 seconds is the year 5138: larger numbers count smaller units.
  const digits = number < 1e11 ? 9 : number < 1e14 ? 6 : number < 1e17 ? 3 : 0;
  const decimal = /^(\d+)(?:\.(\d*))?$/.exec(text);
  if (decimal === null) return nanosecondsOf(String(Math.round(number * 10 ** digits)));
  return nanosecondsOf(decimal[1]! + (decimal[2] ?? "").slice(0, digits).padEnd(digits, "0"));
}

function ofIso(text: string): string {
  const m = ISO.exec(text)!;
  let milliseconds = Date.UTC(+m[1]!, +m[2]! - 1, +m[3]!, +m[4]!, +m[5]!, +(m[6] ?? 0));
  const zone = m[8];
  if (zone !== undefined && zone.toUpperCase() !== "Z") {
    const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(":", "") || 0);
    milliseconds -= (zone.startsWith("-") ? -1 : 1) * minutes * 60_000;
  }
  if (!(milliseconds > 0)) return "";
  return `${milliseconds / 1000}${(m[7] ?? "").padEnd(9, "0")}`;
}

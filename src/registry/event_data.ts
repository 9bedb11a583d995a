/**
 * The data of an event as the event log stores it: within bounds that every reader of the log can
 * carry. Pure.
 */
import { messageOf } from "../base/errors.ts";
import { bytesOfText, EVENT_LIMITS, isLonger } from "../base/field_limits.ts";
import { depthOf } from "../base/text/json_text.ts";

/** Of data that is left out, what is short stays. */
const SHORT = 1000;

export function eventJson(data: Readonly<Record<string, unknown>>): string {
  let why: string | undefined;
  try {
    const text = JSON.stringify(data);
    why = beyondLimits(text);
    if (why === undefined) return text;
  } catch (error) {
    why = `cannot be written: ${messageOf(error)}`;
  }
  const isShort = (value: unknown) =>
    ["number", "boolean"].includes(typeof value) || value === null ||
    (typeof value === "string" && value.length <= SHORT);
  return JSON.stringify({
    ...Object.fromEntries(Object.entries(data).filter(([, value]) => isShort(value))),
    left_out: why,
  });
}

/** Why the data cannot be sent; undefined: it can. */
export function beyondLimits(dataJson: string): string | undefined {
  const { bytes, depth } = EVENT_LIMITS;
  if (isLonger(dataJson, bytes)) return `has ${bytesOfText(dataJson)} bytes; the bound is ${bytes}`;
  const deep = depthOf(dataJson);
  return deep > depth ? `is nested ${deep} deep; the bound is ${depth}` : undefined;
}

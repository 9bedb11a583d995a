/**
 * Formats numbers for people: as the command line does (src/base/text/format.ts), with a sign for
 * what is unknown.
 */
import { count, localTime, number } from "../../../base/text/format.ts";

const NONE = "–";

export function whole(n: number | null | undefined): string {
  return n === null || n === undefined ? NONE : count(n);
}

/** "–" instead of 0 for a run that records no episodes. */
export function recorded(n: number): string {
  return n === 0 ? NONE : whole(n);
}

export function plural(n: number, one: string): string {
  return `${whole(n)} ${one}${n === 1 ? "" : "s"}`;
}

export function figure(n: number | string | null | undefined): string {
  if (n === null || n === undefined) return NONE;
  if (typeof n === "string") return n;
  return Math.abs(n) >= 1000 && Math.abs(n) < 1e7 ? count(n) : number(n);
}

/** @param at Unix milliseconds */
export function moment(at: number | null): string {
  return at === null ? NONE : localTime(at);
}

/** `read_only` → "read only". */
export function words(name: string): string {
  return name.replaceAll("_", " ").replace(/\bgpu\b/g, "GPU");
}

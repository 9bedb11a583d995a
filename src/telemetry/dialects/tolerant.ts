/**
 * Python's json.dumps writes NaN, Infinity and -Infinity as bare tokens, which JSON.parse rejects. A line is tried as
 * JSON first; only one that fails comes here.
 */
import { spansOf } from "./fields.ts";

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g;

/** The text with every bare non-finite token outside of strings as null. */
export function withoutNonFinite(text: string): string {
  return text.replace(TOKEN, (token) => token.charCodeAt(0) === 34 ? token : "null");
}

const VALUES: Record<string, number> = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** A line with non-finite tokens as JSON text and its record, in which top-level tokens are numbers; undefined when it
 * is no JSON all the same. */
export function parseTolerantly(line: string): { line: string; record: unknown } | undefined {
  if (!line.includes("NaN") && !line.includes("Infinity")) return undefined;
  const repaired = withoutNonFinite(line);
  let record: unknown;
  try {
    record = JSON.parse(repaired);
  } catch {
    return undefined;
  }
  if (typeof record === "object" && record !== null && !Array.isArray(record)) {
    const spans: number[] = [];
    const count = spansOf(line, spans);
    for (let i = 0; i < count; i++) {
      const value = VALUES[line.slice(spans[i * 4 + 2], spans[i * 4 + 3])];
      if (value === undefined) continue;
      const key = line.slice(spans[i * 4], spans[i * 4 + 1]);
      if (Object.hasOwn(record, key)) (record as Record<string, unknown>)[key] = value;
    }
  }
  return { line: repaired, record };
}

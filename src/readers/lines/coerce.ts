/**
 * Reads a number, a flag or a text from whatever a worker wrote for it. `undefined`: it cannot be
 * read as one.
 */

/**
 * Numbers, numeric text, booleans; the fallback for null and absence; the sum of several agents'
 * values.
 */
export function toNumber(value: unknown, fallback: number): number | undefined {
  switch (typeof value) {
    case "number":
      return value;
    case "undefined":
      return fallback;
    case "boolean":
      return value ? 1 : 0;
    case "string":
      return numberOfText(value);
    case "object": {
      if (value === null) return fallback;
      let sum = 0;
      for (const part of Object.values(value)) {
        const number = toNumber(part, 0);
        if (number === undefined) return undefined;
        sum += number;
      }
      return sum;
    }
  }
  return undefined;
}

function numberOfText(text: string): number | undefined {
  const trimmed = text.trim();
  if (/^[+-]?inf(inity)?$/i.test(trimmed)) return trimmed.startsWith("-") ? -Infinity : Infinity;
  if (/^nan$/i.test(trimmed)) return NaN;
  if (trimmed === "") return undefined;
  const number = Number(trimmed);
  return Number.isNaN(number) ? undefined : number;
}

/** An index or a count: an integer from 0 to 2^53 - 1; fractions are cut, negatives become 0. */
export function toIndex(value: unknown): number | undefined {
  if (typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER) {
    return Number.isInteger(value) ? value : Math.trunc(value);
  }
  if (value !== null && typeof value === "object") return undefined;
  const number = toNumber(value, 0);
  if (number === undefined || Number.isNaN(number)) return undefined;
  return Math.min(Math.max(Math.trunc(number), 0), Number.MAX_SAFE_INTEGER);
}

const FALSE_TEXTS = new Set(["", "0", "false", "no", "off", "none", "null"]);

/** Whether any of several agents' flags is set. */
export function toFlag(value: unknown): boolean {
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      return !FALSE_TEXTS.has(value.trim().toLowerCase());
    case "number":
      return value !== 0;
    case "object":
      return value !== null && Object.values(value).some(toFlag);
  }
  return false;
}

/** Labels and ids: text as it is, numbers as text, anything else empty. */
export function toLabel(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

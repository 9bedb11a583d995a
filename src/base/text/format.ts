/** Formats quantities for people. Programs get the plain values (src/runs/fields). */

/** "0.8s", "42s", "3m 07s", "2h 05m", "3d 4h". */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 24 * 60) {
    return `${Math.floor(minutes / 60)}h ${String(minutes % 60).padStart(2, "0")}m`;
  }
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

export function ago(at: number | null, now: number): string {
  return at === null ? "-" : `${duration(now - at)} ago`;
}

/**
 * "124,336". Not by toLocaleString, which loads the language tables: a tenth of the time of `mosaic
 * list`.
 */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** At most five characters: "999", "1.2k", "124k", "3.4M". */
export function compact(n: number): string {
  const size = Math.abs(n);
  if (size < 999.5) return String(Math.round(n));
  for (const [unit, letter] of [[1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]] as const) {
    const scaled = n / unit;
    if (Math.abs(scaled) < 9.95) return `${scaled.toFixed(1)}${letter}`;
    if (Math.abs(scaled) < 999.5) return `${Math.round(scaled)}${letter}`;
  }
  return n.toExponential(1);
}

export function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 9.95
    ? `${perSecond.toFixed(1)}/s`
    : `${compact(perSecond)}/s`;
}

/** "512 B", "1.5 MiB". */
export function bytes(n: number): string {
  if (n < 1024) return `${Math.round(n)} B`;
  let value = n;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    value /= 1024;
    if (value < 1023.95 || unit === "TiB") return `${value.toFixed(value < 99.95 ? 1 : 0)} ${unit}`;
  }
  throw new RangeError(`${n} bytes`);
}

/**
 * Four significant digits, with an exponent only for very small or large values: "0.01234",
 * "2.5e-7", "1234".
 */
export function number(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "-∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) {
    return x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  if (size >= 1000) return String(Math.round(x));
  const text = x.toPrecision(4);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** "2025-11-22 14:03:05" in the reader's time zone. */
export function localTime(at: number): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(at)}`;
}

/** "14:03:05" in the reader's time zone. */
export function clock(at: number): string {
  const d = new Date(at);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, "0")).join(
    ":",
  );
}

/**
 * Milliseconds of "90", "90s", "15m", "1h30m", "2d", "500ms" (a bare number is seconds); undefined
 * for anything else.
 */
export function parseDuration(text: string): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const UNITS: Record<string, number> = {
    ms: 1,
    s: 1000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
    w: 604_800_000,
  };
  let total = 0;
  let rest = text;
  while (rest !== "") {
    const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/.exec(rest);
    if (match === null) return undefined;
    total += Number(match[1]) * UNITS[match[2]!]!;
    rest = rest.slice(match[0].length);
  }
  return text === "" ? undefined : total;
}

/** Bytes of "500", "10k", "1.5G", "2GiB" (powers of 1024); undefined for anything else. */
export function parseBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?$/i.exec(text);
  if (match === null) return undefined;
  return Math.round(Number(match[1]) * 1024 ** " kmgt".indexOf(match[2]!.toLowerCase() || " "));
}

/** Unique prefixes of the ids, all of the same length, at least `least` characters. */
export function shortIds(ids: readonly string[], least = 10): Map<string, string> {
  const distinct = [...new Set(ids)];
  let length = least;
  while (length < 26 && new Set(distinct.map((id) => id.slice(0, length))).size < distinct.length) {
    length++;
  }
  return new Map(distinct.map((id) => [id, id.slice(0, length)]));
}

/** A path for display: a file in the run's directory by its path below that. */
export function pathInRun(directory: string, path: string): string {
  return path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path;
}

/** Times as text. */

let cachedSecond = -1;
let cachedPrefix = "";

/**
 * RFC 3339 in milliseconds; "" for no time. The text up to the seconds is cached: rows come in
 * order of time.
 */
export function isoTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== cachedSecond) {
    const date = new Date(second * 1000);
    if (Number.isNaN(date.getTime())) return "";
    cachedPrefix = date.toISOString().slice(0, -4);
    cachedSecond = second;
  }
  return `${cachedPrefix}${String(ms - second * 1000).padStart(3, "0")}Z`;
}

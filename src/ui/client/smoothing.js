// @ts-check
/** Arithmetic of charts: pure, on columns. */

/** @typedef {(number | null)[]} Column */

/** What JSON could not carry ("NaN") is a hole in a line. @param {(number | string)[]} values @returns {Column} */
export function numbers(values) {
  return values.map((v) => typeof v === "number" ? v : null);
}

/**
 * Exponential moving average without the pull towards zero at the start.
 * @param {Column} values @param {number} weight of the past, 0 to below 1
 * @returns {Column}
 */
export function smooth(values, weight) {
  if (weight <= 0) return values;
  let sum = 0;
  let scale = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = sum * weight + (1 - weight) * v;
    scale = scale * weight + (1 - weight);
    return sum / scale;
  });
}

/** A logarithm has no place for what is not positive. @param {Column} values @returns {Column} */
export function positive(values) {
  return values.map((v) => v !== null && v > 0 ? v : null);
}

/**
 * Points that were stored together may carry the same step: they lie between the step before and that one.
 * @param {number[]} steps ascending, or back after a restart
 */
export function spread(steps) {
  const xs = [...steps];
  for (let start = 0; start < steps.length;) {
    let end = start + 1;
    while (end < steps.length && steps[end] === steps[start]) end++;
    const before = steps[start - 1] ?? 0;
    const step = steps[start] ?? 0;
    for (let i = start; before < step && i < end; i++) {
      xs[i] = before + (step - before) * (i - start + 1) / (end - start);
    }
    start = end;
  }
  return xs;
}

/**
 * uPlot wants x ascending and each x once; two clocks may disagree, and points of one millisecond have the same time.
 * Moved by the least that counts: times of day are large, and a part of them that looks small is minutes.
 * @param {number[]} xs
 */
export function ascending(xs) {
  let last = -Infinity;
  return xs.map((x) => last = x > last ? x : last + Math.max(1e-9, Math.abs(last) * Number.EPSILON));
}

/**
 * The numbers of the points between two positions on the x axis. A bucket of several points reaches from the position
 * of the bucket before it to its own.
 * @param {number[]} xs of each bucket's last point @param {{first_x: number[], last_x: number[]}} buckets
 * @param {number} from @param {number} to
 * @returns {[number, number] | undefined} the first and the last, or undefined where nothing was recorded
 */
export function pointsBetween(xs, { first_x, last_x }, from, to) {
  let first = Infinity;
  let last = -Infinity;
  xs.forEach((x, i) => {
    const a = first_x[i] ?? 0;
    const b = last_x[i] ?? 0;
    const begin = a < b ? xs[i - 1] ?? -Infinity : x;
    if (x < from || begin > to) return;
    first = Math.min(first, a);
    last = Math.max(last, b);
  });
  return first <= last ? [first, last] : undefined;
}

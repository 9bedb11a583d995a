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
 * uPlot wants x ascending and each x once; two clocks may disagree.
 * @param {number[]} xs
 */
export function ascending(xs) {
  let last = -Infinity;
  return xs.map((x) => last = x > last ? x : last + 1e-6 * Math.max(1, Math.abs(last)));
}

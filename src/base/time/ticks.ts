/** Positions of an axis's numbers. Pure. */

/** Round numbers within the range, about as many as requested. @returns at least one */
export function ticksOf(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / wanted;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((s) => s >= rough) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  // Between numbers that differ only in their last bits there are no round ones, and adding a step
  // changes nothing.
  if (!Number.isSafeInteger(first + 2 * wanted) || !Number.isSafeInteger(first)) return [low];
  const found: number[] = [];
  for (let n = first; n * step <= high + step * 1e-9; n++) {
    found.push(Number((n * step).toPrecision(12)));
  }
  return found.length > 0 ? found : [low];
}

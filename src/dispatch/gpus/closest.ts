/** Which cards one run gets: those that are connected best. Pure. */

/** Of two slots; higher is closer, 0: not known. */
export type Closeness = (a: number, b: number) => number;

/**
 * `count` of these slots, so that those chosen are close to each other, and, among equals, far from
 * the rest: a run of one card leaves pairs whole. Each slot in turn is the first, and the best next
 * one joins it: exact for pairs, and for the cards of one host good enough.
 */
export function closest(free: readonly number[], count: number, closeness: Closeness): number[] {
  if (count >= free.length) return [...free];
  let best: { chosen: number[]; inner: number; outer: number } | undefined;
  const sumTo = (slot: number, others: readonly number[]) =>
    others.reduce((sum, other) => sum + (other === slot ? 0 : closeness(slot, other)), 0);
  for (const first of count === 0 ? [] : free) {
    const chosen = [first];
    let inner = 0;
    while (chosen.length < count) {
      const rest = free.filter((slot) => !chosen.includes(slot));
      const near = rest.map((slot) => ({ slot, near: sumTo(slot, chosen) }));
      const next = near.reduce((best, its) => its.near > best.near ? its : best);
      chosen.push(next.slot);
      inner += next.near;
    }
    const rest = free.filter((slot) => !chosen.includes(slot));
    const outer = chosen.reduce((sum, slot) => sum + sumTo(slot, rest), 0);
    const isBetter = best === undefined || inner > best.inner ||
      (inner === best.inner && outer < best.outer);
    if (isBetter) best = { chosen, inner, outer };
  }
  return (best?.chosen ?? []).toSorted((a, b) => a - b);
}

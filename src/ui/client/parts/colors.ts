/** Assigns the series' colours to runs or groups: the same in all charts and tables of a view. */
import { groupOrder } from "../../../telemetry/series/groups.ts";

/** `--series-1` and so on, of the style sheet. */
export const COLORS = 8;

export const colorAt = (place: number): string => `var(--series-${place % COLORS + 1})`;

/** Groups by their labels, with the index of each. */
export function placesOf(groups: readonly string[]): Map<string, number> {
  return new Map([...new Set(groups)].sort(groupOrder).map((group, place) => [group, place]));
}

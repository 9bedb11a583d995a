/** Names that have a meaning in some dialect, by their numbers (src/records/record_fields.ts). */
import { SLOT } from "../../gen/records/line_fields.ts";

export { SLOT };

export const SLOTS = Object.keys(SLOT).length;

const byName = new Map<string, number>(Object.entries(SLOT));

/** -1 for a name without a meaning. */
export function slotOf(name: string): number {
  return byName.get(name) ?? -1;
}

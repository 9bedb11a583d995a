/** Which runs of the list are drawn in the charts beside it. Pure. */

/** Rows that are drawn until a person chooses: as many as one can tell apart. */
export const FIRST_ROWS = 10;

export interface Eyes {
  /** What is drawn besides the exceptions: the first rows of the list, every row, or none. */
  base: "first" | "all" | "none";
  on: ReadonlySet<string>;
  off: ReadonlySet<string>;
}

/**
 * @param rows the ids of each row in the list's order: of a run, or of a group's runs
 * @param most bound on the runs
 * @returns ids in the list's order
 */
export function drawnOf(
  rows: readonly (readonly string[])[],
  { base, on, off }: Eyes,
  most: number,
): string[] {
  const usual = base === "all" ? rows.length : base === "none" ? 0 : FIRST_ROWS;
  return rows.flatMap((ids, row) => ids.filter((id) => on.has(id) || (row < usual && !off.has(id))))
    .slice(0, most);
}

/** The choice after these runs are shown or hidden; everything else stays as it is. */
export function toggledEyes({ base, on, off }: Eyes, ids: readonly string[], shown: boolean): Eyes {
  const of = new Set(ids);
  const without = (set: ReadonlySet<string>) => [...set].filter((id) => !of.has(id));
  return {
    base,
    on: new Set(shown ? [...on, ...ids] : without(on)),
    off: new Set(shown ? without(off) : [...off, ...ids]),
  };
}

/** Resolves a run by name or id prefix, with suggestions for an unknown one. */
import { editDistance } from "../base/text/edit_distance.ts";
import { MosaicError } from "../base/errors.ts";
import { NEWEST_FIRST } from "./listing.ts";
import type { Sql } from "./sqlite.ts";

/** Newest names searched for suggestions. */
const NAMES_SEARCHED = 2000;

/**
 * The run with this name, or with an id that has this prefix (at least two characters, in any
 * case).
 * @param inTrash of the runs in the trash, instead of those that are not there
 * @param owner only among the runs of this owner
 * @throws `not_found` with similar names; `invalid_argument` with up to five matches if there are
 * several.
 */
export function resolveRunId(sql: Sql, ref: string, inTrash = false, owner?: string): string {
  const kept = `deleted_at IS ${inTrash ? "NOT NULL" : "NULL"} AND (? IS NULL OR owner = ?)`;
  const whose = [owner ?? null, owner ?? null];
  const matches = sql.all(
    `SELECT run_id, name FROM runs WHERE name = ? AND ${kept} ${NEWEST_FIRST} LIMIT 6`,
    ref,
    ...whose,
  );
  if (ref.length >= 2) {
    // Run ids are ULIDs: upper-case ASCII, so "~" sorts after all ids with the prefix.
    const prefix = ref.toUpperCase();
    const byId = sql.all(
      `SELECT run_id, name FROM runs WHERE run_id >= ? AND run_id < ? AND ${kept} ORDER BY run_id DESC LIMIT 6`,
      prefix,
      `${prefix}~`,
      ...whose,
    );
    matches.push(...byId.filter((row) => !matches.some((other) => other.run_id === row.run_id)));
  }
  if (matches.length === 1) return matches[0]!.run_id as string;
  if (matches.length > 1) {
    const shown = matches.slice(0, 5).map((row) => `${row.run_id} (${row.name})`).join(", ");
    throw new MosaicError(
      "invalid_argument",
      `${JSON.stringify(ref)} matches several runs: ${shown}${matches.length > 5 ? ", …" : ""}`,
      { hint: "Give a longer part of the run id." },
    );
  }
  const names = sql.all(
    `SELECT DISTINCT name FROM (SELECT name FROM runs WHERE ${kept} ${NEWEST_FIRST} LIMIT ?)`,
    ...whose,
    NAMES_SEARCHED,
  );
  const near = nearNames(ref, names.map((row) => row.name as string));
  const meant = near.length > 0
    ? `; did you mean ${near.map((name) => JSON.stringify(name)).join(" or ")}?`
    : "";
  throw new MosaicError(
    "not_found",
    `there is no run ${JSON.stringify(ref)}${inTrash ? " in the trash" : ""}${meant}`,
    {
      ...(inTrash
        ? { hint: "mosaic list --trash shows what is there." }
        : isInTrash(sql, ref, owner)
        ? { hint: `A deleted run of that name is in the trash: mosaic restore ${ref}` }
        : {}),
    },
  );
}

function isInTrash(sql: Sql, ref: string, owner: string | undefined): boolean {
  try {
    return resolveRunId(sql, ref, true, owner) !== "";
  } catch (error) {
    if (error instanceof MosaicError) return error.code === "invalid_argument";
    throw error;
  }
}

/**
 * Up to three of `names` that are a typing error away from `wanted`, contain it or are its prefix;
 * most similar first.
 */
export function nearNames(wanted: string, names: Iterable<string>): string[] {
  const target = wanted.toLowerCase();
  if (target === "") return [];
  const tolerated = Math.max(1, Math.floor(target.length / 3));
  const near = new Map<string, number>();
  for (const name of names) {
    const candidate = name.toLowerCase();
    if (Math.abs(candidate.length - target.length) <= tolerated) {
      const distance = editDistance(target, candidate);
      if (distance <= tolerated) near.set(name, distance);
    }
    if (!near.has(name) && target.length >= 3 && candidate.includes(target)) {
      near.set(name, tolerated + 1);
    }
  }
  return [...near].sort((a, b) => a[1] - b[1]).slice(0, 3).map(([name]) => name);
}

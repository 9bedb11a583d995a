/**
 * Trials among the runs that an import finds: live they are runs within their program's run, so an
 * import makes a run for the program, too. Pure.
 */
import { childPlaceOf } from "../files/child_places.ts";
import type { FoundRun } from "./parts_of_runs.ts";

/** A run of an import; one with `place` is within the run whose directory is `of`. */
export interface PlacedRun extends FoundRun {
  place?: { of: string; key: string; name: string };
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";

/**
 * The programs come before their trials, without files if they have none of their own.
 * @param top the directory that is imported: what is above it was not asked for
 * @param most files of one run
 */
export function withPrograms(
  runs: readonly FoundRun[],
  top: string,
  most: number,
): PlacedRun[] {
  const trials = new Map<string, PlacedRun>();
  const others: FoundRun[] = [];
  for (const run of runs) {
    const place = childPlaceOf(run.files[0]!);
    const of = place === undefined ? "" : parentOf(place.key);
    if (place === undefined || place.aloneIsParent || !`${of}/`.startsWith(`${top}/`)) {
      others.push(run);
      continue;
    }
    const known = trials.get(place.key);
    if (known === undefined) {
      const { key, name } = place;
      trials.set(key, { directory: key, files: [...run.files], place: { of, key, name } });
    } else if (known.files.length + run.files.length <= most) known.files.push(...run.files);
    else others.push(run);
  }
  const programs = Map.groupBy(trials.values(), ({ place }) => place!.of);
  const own = new Map(others.map((run) => [run.directory, run]));
  return [
    ...others.filter((run) => !programs.has(run.directory) || own.get(run.directory) !== run),
    ...[...programs].flatMap(([directory, within]) => [
      own.get(directory) ?? { directory, files: [] },
      ...within.sort((a, b) => a.place!.key < b.place!.key ? -1 : 1),
    ]),
  ];
}

/**
 * Which process of a job printed a line: two ranks that print one metric are two series of it, not
 * a zigzag. Pure.
 */
import type { LineFields } from "./line_fields.ts";

/**
 * [rank1]: of PyTorch, [default1]: of torchrun, [1,3]<stdout>: of mpirun. (srun -l's `3: ` may be a
 * step.)
 */
const BEGINNING =
  /^\s*\[(?:(?:rank|default|trainer|worker)_?(\d{1,4})|\d{1,9},\s?(\d{1,4})(?=\]<))\]/;
/** Fields of a line that say it. */
const FIELDS = new Set(["rank", "global_rank", "process_index"]);
const MOST_RANKS = 4096;

/**
 * The fields, with the rank in the names of their series if it is not 0; a field with the rank is
 * no series.
 */
export function ofRank(fields: LineFields, line: string): LineFields {
  const [, torch, mpi] = BEGINNING.exec(line) ?? [];
  const said = fields.scalars.find(([tag]) => FIELDS.has(tag));
  const isRank = said !== undefined && Number.isInteger(said[1]) && said[1] >= 0 &&
    said[1] < MOST_RANKS &&
    fields.scalars.length > 1 && fields.step !== undefined;
  const rank = torch ?? mpi ?? (isRank ? String(said[1]) : undefined);
  if (rank === undefined) return fields;
  const others = isRank ? fields.scalars.filter((one) => one !== said) : fields.scalars;
  const scalars = Number(rank) === 0
    ? others
    : others.map(([tag, value]): [string, number] => [`${tag}@rank${Number(rank)}`, value]);
  return { ...fields, scalars };
}

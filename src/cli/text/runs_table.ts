/**
 * The columns of runs in a terminal: those of every table of runs, a short id, and colors of
 * states.
 */
import { type RunColumn, type RunColumnNow, runColumns } from "../../runs/fields/run_columns.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import type { Column } from "./table.ts";
import { stateStyle } from "./text.ts";

export type ListColumn = RunColumnNow & Column<RunJson>;

export interface ListContext {
  now: number;
  /** A unique prefix of the id. */
  shortId(id: string): string;
}

export const DEFAULT_COLUMNS = [
  "run",
  "name",
  "state",
  "gpus",
  "elapsed",
  "steps",
  "rate",
  "reward",
  "note",
] as const;
export const WIDE_COLUMNS = [
  "run_id",
  "name",
  "state",
  "attempt",
  "priority",
  "gpus",
  "node",
  "job",
  "tags",
  "submitted",
  "elapsed",
  "episodes",
  "steps",
  "rate",
  "reward",
  "last_record",
  "backlog",
  "note",
] as const;

/** Width of the bar in notes. */
const BAR = 10;

export function listColumns({ now, shortId }: ListContext): ListColumn[] {
  const run: RunColumn = { name: "run", value: (r) => r.run_id, text: (r) => shortId(r.run_id) };
  return [run, ...runColumns(BAR)].map((column) => ({
    ...column,
    value: (r) => column.value(r, now),
    text: (r) => column.text(r, now),
    ...(column.name === "state" ? { style: (r: RunJson) => stateStyle(r.state) } : {}),
  }));
}

/** `--group-by` and `--band`: their options, and groups of listed runs. */
import { Option } from "commander";
import { BANDS, type Groupable, type GroupBy } from "../../telemetry/series/groups.ts";
import {
  commonText,
  type Group,
  type GroupPoint,
  type GroupValue,
  groupValue,
  spreadText,
} from "../../runs/run_groups.ts";
import type { Series } from "../text/chart.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import type { RunColumnNow } from "../../runs/fields/run_columns.ts";
import type { Column } from "../text/table.ts";
import { oneOf } from "./verb_parser.ts";

export const GROUP_BY_OPTION = "--group-by <what>";
export const GROUP_BY_HELP =
  "name (without its seed), params (all but the seed), tags, or param.NAME";

export function bandOption(): Option {
  const means = Object.entries(BANDS).map(([name, meaning]) => `${name}: ${meaning}`).join("; ");
  return oneOf(
    new Option("--band <spread>", `with --group-by, what is drawn around the mean (${means})`),
    Object.keys(BANDS),
  )
    .default("sd");
}

/**
 * The column that the daemon must send for the grouping; undefined if a run's own fields are
 * enough.
 */
export function columnFor(by: GroupBy): string | undefined {
  if (by === "parameters") return "param.*";
  return by.startsWith("parameter:") ? `param.${by.slice("parameter:".length)}` : undefined;
}

/** A listed run with the parameters that came as `columnFor(by)`. */
export function groupable(run: RunJson, by: GroupBy): Groupable {
  const column = columnFor(by);
  const value = column === undefined ? undefined : run.values?.[column];
  const pairs = column === "param.*"
    ? (value ?? []) as [string, unknown][]
    : value === undefined || value === null
    ? []
    : [[column!.slice("param.".length), value] as const];
  return {
    name: run.name,
    tags: run.tags,
    parameters: pairs.map(([name, value]) => ({ name, value })),
  };
}

/**
 * A column of runs as a column of groups: mean and standard deviation of numbers; other values only
 * if all are equal.
 */
export function groupColumn(column: RunColumnNow): Column<Group<RunJson>> & {
  value(group: Group<RunJson>): GroupValue | string | null;
} {
  const value = ({ members }: Group<RunJson>) => {
    const values = members.map((run) => column.value(run));
    if (values.some((v) => typeof v === "number")) return groupValue(values as (number | null)[]);
    return commonText(members.map((run) => column.text(run)));
  };
  return {
    name: column.name,
    ...(column.heading === undefined ? {} : { heading: column.heading }),
    ...(column.align === undefined ? {} : { align: column.align }),
    shrinkTo: 8,
    value,
    text: (group) => {
      const found = value(group);
      return typeof found === "string"
        ? found
        : spreadText(found, group.members.length, column.figure);
    },
  };
}

export function groupSeries(name: string, points: readonly GroupPoint[]): Series {
  return {
    name,
    points: points.map(({ x, mean, low, high }) => ({ x, y: mean, min: low, max: high })),
  };
}

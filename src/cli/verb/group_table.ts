/** `mosaic list --group-by`: one row per group. */
import type { GroupBy } from "../../telemetry/series/groups.ts";
import type { Context } from "../link/context.ts";
import { commaSeparated, type Format } from "./flags.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { type Group, type GroupValue, inGroups, statesText } from "../../runs/run_groups.ts";
import { groupable, groupColumn } from "./group_by.ts";
import {
  chooseColumns,
  queried,
  type RunColumnNow,
  valueColumn,
} from "../../runs/fields/run_columns.ts";
import { listColumns } from "../text/runs_table.ts";
import { byValue, sortOf } from "../../runs/query/order.ts";
import { csv } from "../../base/text/csv_text.ts";
import { table } from "../text/table.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

/** Default columns of a table of groups. */
const GROUP_COLUMNS = ["steps", "episodes", "reward"];

export function renderGroups(
  runs: RunJson[],
  by: GroupBy,
  flags: Record<string, unknown>,
  { now, terminal }: Pick<Context, "now" | "terminal">,
): string {
  const format = flags["output"] as Format;
  const chosen = typeof flags["columns"] === "string"
    ? commaSeparated(flags["columns"])
    : GROUP_COLUMNS;
  const known = [
    ...listColumns({ now: now(), shortId: (id) => id }),
    ...queried(chosen).map(valueColumn),
  ];
  const columns = chooseColumns(chosen, known).map(groupColumn);
  const groups = inGroups(runs, (run) => groupable(run, by), by);
  sortGroups(groups, typeof flags["sort"] === "string" ? flags["sort"] : "", known);
  if (flags["quiet"] === true) {
    return groups.flatMap(({ members }) => members.map((r) => `${r.run_id}\n`)).join("");
  }
  const rows = groups.map((group) => ({
    group: group.name,
    runs: group.members.map((r) => r.run_id),
    states: Object.fromEntries(
      [...Map.groupBy(group.members, (r) => r.state)].map(([state, of]) => [state, of.length]),
    ),
    values: Object.fromEntries(columns.map((c) => [c.name, c.value(group)])),
  }));
  switch (format) {
    case "json":
      return `${JSON.stringify(rows, null, 2)}\n`;
    case "jsonl":
      return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    case "csv": {
      const parts = ["mean", "sd", "min", "max", "runs"] as const;
      const isSpread = (value: unknown): value is GroupValue =>
        typeof value === "object" && value !== null;
      const wide = columns.map((c) => ({
        ...c,
        spread: groups.some((group) => isSpread(c.value(group))),
      }));
      const names = wide.flatMap(({ name, spread }) =>
        spread ? parts.map((part) => `${name}_${part}`) : [name]
      );
      return csv(
        ["group", "runs", ...names],
        groups.map((group) => [
          group.name,
          group.members.length,
          ...wide.flatMap((c) => {
            const value = c.value(group);
            const cells = c.spread
              ? parts.map((part) => isSpread(value) ? value[part] : null)
              : [value as string | null];
            return cells as (string | number | null)[];
          }),
        ]),
      );
    }
    default:
      if (groups.length === 0) return "No runs.\n";
      return table(
        [
          { name: "group", shrinkTo: 12, text: (g) => g.name },
          { name: "runs", align: "right", text: (g) => String(g.members.length) },
          {
            name: "states",
            shrinkTo: 10,
            text: (g) => statesText(g.members.map((r) => stateWord(r.state))),
          },
          ...columns,
        ],
        groups,
        {
          width: terminal.isTty && format !== "wide" ? terminal.width : undefined,
          color: terminal.color,
        },
      );
  }
}

/** By the mean of a numeric column; groups without a value come last. "": by name. */
function sortGroups(groups: Group<RunJson>[], sort: string, known: RunColumnNow[]): void {
  if (sort === "") return;
  const { column: name, descending } = sortOf(sort);
  const at = /^(?:param|metric)\./.test(name)
    ? valueColumn(name)
    : chooseColumns([name], known)[0]!;
  const key = (group: Group<RunJson>) => {
    const value = groupColumn(at).value(group);
    return typeof value === "object" ? value?.mean : value;
  };
  groups.sort((a, b) => byValue(key(a), key(b), descending));
}

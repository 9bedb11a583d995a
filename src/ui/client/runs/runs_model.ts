/** All runs in memory, and which of them to show in which order. Pure: other files draw. */
import type { EventJson } from "../../../runs/fields/host_json.ts";
import type { ComparedRun } from "../../api/page_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import {
  Budget,
  columnsOf,
  type Expression,
  fits,
  parseExpression,
  type Value,
} from "../../../runs/query/expression.ts";
import { byValue } from "../../../runs/query/order.ts";
import { type QueryColumn, queryColumn, valueOf } from "../../../runs/query/query_columns.ts";

export interface Filter {
  states: Set<string>;
  text: string;
  tag: string;
  kind: string;
  /** As `mosaic list --where`: `lr>0.01 and env=CartPole-v1`. */
  where: string;
}

/** A value of a column in a chart or cell: numbers are kept, everything else becomes text. */
export function plainValue(value: unknown): number | string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "number" || typeof value === "string" ? value : JSON.stringify(value);
}

interface Conditions {
  expression: Expression | undefined;
  /** Parameters and metrics that it names. */
  columns: string[];
  /** Why the text is not a filter. */
  wrong: string;
}

/** The filter of the box, in the language of `mosaic list --where`. */
function conditionsOf(where: string): Conditions {
  if (where.trim() === "") return { expression: undefined, columns: [], wrong: "" };
  try {
    const expression = parseExpression(where);
    const columns = [...columnsOf(expression)].map((name) =>
      idOf(queryColumn(name, "param"), name)
    );
    return { expression, columns: columns.filter((id) => id !== undefined), wrong: "" };
  } catch (error) {
    return { expression: undefined, columns: [], wrong: (error as Error).message };
  }
}

/** The column as it is asked for; undefined for one of the run itself. */
function idOf(column: QueryColumn, name: string): string | undefined {
  return column.type === "run"
    ? undefined
    : column.type === "param"
    ? `param.${column.name}`
    : name;
}

export class RunsModel {
  runs = new Map<string, RunJson>();
  /** Parameters of the runs of which they were asked for. */
  readonly parameters = new Map<string, ComparedRun["parameters"]>();
  /** The newest alert of each run that has alerts. */
  readonly alerts = new Map<string, EventJson>();
  filter: Filter = { states: new Set(), text: "", tag: "", kind: "", where: "" };
  /** Name of a column. */
  sort = "submitted";
  /** Further columns (`param.lr`, `metric.loss:min`), with their values by run id. */
  #columns = new Map<string, Record<string, unknown>>();
  direction: 1 | -1 = -1;

  /**
   * Ids in the order last shown; valid until a run is added, removed, or changes a field that order
   * or filters use.
   */
  #order: string[] = [];
  #orderedBy = "";
  #changed = true;
  #conditions: (Conditions & { where: string }) | undefined;
  #counts: Map<string, number> | undefined;
  #tags: string[] | undefined;

  put(lines: readonly RunJson[]): void {
    const key = this.#valueOf(this.sort);
    const { expression } = this.conditions();
    for (const line of lines) {
      // Runs within a run are folded into it.
      if (line.parent) continue;
      const before = this.runs.get(line.run_id);
      this.runs.set(line.run_id, line);
      if (before === undefined) this.#tags = undefined;
      if (before?.state !== line.state) this.#counts = undefined;
      // A filter may look at any field.
      if (
        before?.state !== line.state || expression !== undefined || key(before, 0) !== key(line, 0)
      ) {
        this.#changed = true;
      }
    }
  }

  keepParameters(runs: readonly ComparedRun[]): void {
    for (const { run_id, parameters } of runs) this.parameters.set(run_id, parameters);
  }

  /** @returns whether it is new */
  alert(event: EventJson): boolean {
    if (event.seq <= (this.alerts.get(event.run_id)?.seq ?? 0)) return false;
    this.alerts.set(event.run_id, event);
    return true;
  }

  remove(id: string): void {
    this.alerts.delete(id);
    if (!this.runs.delete(id)) return;
    this.#counts = undefined;
    this.#tags = undefined;
    this.#changed = true;
  }

  setColumns(columns: readonly { id: string; values: Record<string, unknown> }[]): void {
    this.#columns = new Map(columns.map(({ id, values }) => [id, values]));
    this.#changed = true;
  }

  value(column: string, run: RunJson): Value {
    return this.#columns.get(column)?.[run.run_id] as Value ?? undefined;
  }

  /** A column of the run itself, a parameter or a metric. */
  #valueOf(name: string): (run: RunJson, now: number) => Value {
    const column = queryColumn(name, "param");
    if (column.type === "run") return (run, now) => valueOf(column.of, run, now);
    const id = idOf(column, name)!;
    return (run) => this.value(id, run);
  }

  conditions(): Conditions {
    if (this.#conditions?.where !== this.filter.where) {
      const { where } = this.filter;
      this.#conditions = { where, ...conditionsOf(where) };
    }
    return this.#conditions!;
  }

  /** Runs that pass the filter, in order. */
  shown(now: number): RunJson[] {
    const by = JSON.stringify([
      [...this.filter.states],
      this.filter.text,
      this.filter.tag,
      this.filter.kind,
      this.filter.where,
      this.sort,
      this.direction,
    ]);
    // Elapsed times grow without an event.
    if (this.#changed || by !== this.#orderedBy || ["elapsed", "note"].includes(this.sort)) {
      this.#order = this.#ordered(now);
      this.#orderedBy = by;
      this.#changed = false;
    }
    return this.#order.map((id) => this.runs.get(id)!);
  }

  #ordered(now: number): string[] {
    const { states, text, tag, kind } = this.filter;
    const wanted = text.trim().toLowerCase();
    const key = this.#valueOf(this.sort);
    const { expression, wrong } = this.conditions();
    if (wrong !== "") return [];
    const tested = new Map(
      expression && [...columnsOf(expression)].map((name) => [name, this.#valueOf(name)]),
    );
    const budget = new Budget();
    const passing: [Value, RunJson][] = [];
    for (const run of this.runs.values()) {
      if (states.size > 0 && !states.has(run.state)) continue;
      if (kind !== "" && (run.base_dir === "evals") !== (kind === "eval")) continue;
      if (tag !== "" && !run.tags.includes(tag)) continue;
      if (
        wanted !== "" && !run.name.toLowerCase().includes(wanted) &&
        !run.run_id.toLowerCase().startsWith(wanted)
      ) {
        continue;
      }
      if (expression && !fits(expression, (name) => tested.get(name)!(run, now), budget)) continue;
      passing.push([key(run, now), run]);
    }
    const descending = this.direction === -1;
    passing.sort(([a, x], [b, y]) =>
      byValue(a, b, descending) || y.submitted_at.localeCompare(x.submitted_at) ||
      (x.run_id < y.run_id ? 1 : -1)
    );
    return passing.map(([, run]) => run.run_id);
  }

  countByState(): Map<string, number> {
    if (this.#counts !== undefined) return this.#counts;
    const counts = new Map<string, number>();
    for (const { state } of this.runs.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    return this.#counts = counts;
  }

  hasEvaluations(): boolean {
    for (const { base_dir } of this.runs.values()) if (base_dir === "evals") return true;
    return false;
  }

  tags(): string[] {
    if (this.#tags !== undefined) return this.#tags;
    const tags = new Set<string>();
    for (const run of this.runs.values()) for (const tag of run.tags) tags.add(tag);
    return this.#tags = [...tags].sort();
  }
}

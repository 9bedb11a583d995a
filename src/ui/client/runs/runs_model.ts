/** All runs in memory, and which of them to show in which order. Pure: other files draw. */
import type { EventLine } from "../../api/page_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { runColumns } from "../../../runs/fields/run_columns.ts";

export interface Filter {
  states: Set<string>;
  text: string;
  tag: string;
  kind: string;
  /** Conditions on columns, as `lr>0.01 env=CartPole-v1`. */
  where: string;
}

const CONDITION = /^([^\s=<>!]+)(<=|>=|!=|=|<|>)(\S*)$/;
type Test = (run: RunJson) => boolean;
export type Value = number | string;

/** A value of a column: numbers are kept, everything else becomes text. */
export function valueOf(value: unknown): Value | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "number" || typeof value === "string" ? value : JSON.stringify(value);
}

function holds(value: Value | undefined, operator: string, wanted: string): boolean {
  if (operator === "=" || operator === "!=") {
    const same = typeof value === "number" ? value === Number(wanted) : value === wanted;
    return same === (operator === "=");
  }
  if (typeof value !== "number") return false;
  const n = Number(wanted);
  return operator === "<" ? value < n : operator === "<=" ? value <= n : operator === ">" ? value > n : value >= n;
}

const COLUMNS = new Map(runColumns().map((column) => [column.name, column]));

export class RunsModel {
  runs = new Map<string, RunJson>();
  /** The newest alert of each run that has alerts. */
  readonly alerts = new Map<string, EventLine>();
  filter: Filter = { states: new Set(), text: "", tag: "", kind: "", where: "" };
  /** Name of a column. */
  sort = "submitted";
  /** Further columns by id (`parameter:lr`, `last:loss`), with their values by run id. */
  #columns = new Map<string, Record<string, unknown>>();
  direction: 1 | -1 = -1;

  /** Ids in the order last shown; valid until a run is added, removed, or changes a field that order or filters use. */
  #order: string[] = [];
  #orderedBy = "";
  #changed = true;
  #counts: Map<string, number> | undefined;
  #tags: string[] | undefined;

  put(lines: readonly RunJson[]): void {
    const key = this.#key();
    for (const line of lines) {
      const before = this.runs.get(line.run_id);
      this.runs.set(line.run_id, line);
      if (before === undefined) this.#tags = undefined;
      if (before?.state !== line.state) this.#counts = undefined;
      if (before?.state !== line.state || key(before, 0) !== key(line, 0)) this.#changed = true;
    }
  }

  /** @returns whether it is new */
  alert(event: EventLine): boolean {
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

  value(column: string, run: RunJson): Value | undefined {
    return valueOf(this.#columns.get(column)?.[run.run_id]);
  }

  #key(): (r: RunJson, now: number) => Value | undefined {
    const { sort } = this;
    if (sort.includes(":")) return (r) => this.value(sort, r);
    const column = COLUMNS.get(sort) ?? COLUMNS.get("submitted")!;
    return (r, now) => column.value(r, now) ?? undefined;
  }

  /** The conditions on columns, or the invalid one. */
  conditions(): { tests: Test[]; wrong: string } {
    const tests: Test[] = [];
    for (const word of this.filter.where.split(/\s+/).filter((w) => w !== "")) {
      const [, name, operator, wanted] = CONDITION.exec(word) ?? [];
      const column = [...this.#columns.keys()].find((id) => id === name || id.slice(id.indexOf(":") + 1) === name);
      if (column === undefined || wanted === "") return { tests: [], wrong: word };
      tests.push((run) => holds(this.value(column, run), operator!, wanted!));
    }
    return { tests, wrong: "" };
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
    const key = this.#key();
    const { tests } = this.conditions();
    const passing: [Value | undefined, RunJson][] = [];
    for (const run of this.runs.values()) {
      if (states.size > 0 && !states.has(run.state)) continue;
      if (kind !== "" && (run.base_dir === "evals") !== (kind === "eval")) continue;
      if (tag !== "" && !run.tags.includes(tag)) continue;
      if (wanted !== "" && !run.name.toLowerCase().includes(wanted) && !run.run_id.toLowerCase().startsWith(wanted)) {
        continue;
      }
      if (!tests.every((test) => test(run))) continue;
      passing.push([key(run, now), run]);
    }
    const d = this.direction;
    // Runs without a value are last in either direction; numbers come before texts.
    const rank = (v: Value | undefined) => v === undefined ? 2 : typeof v === "number" ? 0 : 1;
    passing.sort(([a, x], [b, y]) =>
      rank(a) !== rank(b)
        ? rank(a) - rank(b)
        : a === undefined || b === undefined
        ? 0
        : a < b
        ? -d
        : a > b
        ? d
        : y.submitted_at.localeCompare(x.submitted_at) || (x.run_id < y.run_id ? 1 : -1)
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

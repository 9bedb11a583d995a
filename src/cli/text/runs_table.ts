/** Columns of the table of runs: text for people, and plain values for CSV and sorting. */
import { MosaicError } from "../../base/errors.ts";
import { ago, bytes, compact, count, duration, localTime, number, rate } from "../../base/text/format.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { valueText } from "../../runs/parameter_text.ts";
import { backlog, elapsedMs, msOf, note, rewardOf, stepsOf, withOverwritten } from "../../runs/fields/run_texts.ts";
import type { Column } from "./table.ts";
import { stateStyle } from "./text.ts";

export interface RunColumn extends Column<RunJson> {
  value(run: RunJson): string | number | null;
  /** Formats a mean of values, or their deviation, in the column's unit. */
  figure?(n: number): string;
}

export interface RunColumnsContext {
  now: number;
  /** A unique prefix of the id. */
  shortId(id: string): string;
}

export const DEFAULT_COLUMNS = ["run", "name", "state", "gpus", "elapsed", "steps", "rate", "reward", "note"] as const;
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

export function runColumns({ now, shortId }: RunColumnsContext): RunColumn[] {
  const time = (name: string, at: (run: RunJson) => string | null): RunColumn => ({
    name,
    value: at,
    text: (run) => at(run) === null ? "" : localTime(msOf(at(run))!),
  });
  const figure = (
    name: string,
    value: (run: RunJson) => number | null,
    text: (n: number) => string,
    ofMany = text === String ? number : text,
  ): RunColumn => ({
    name,
    align: "right",
    value,
    figure: ofMany,
    text: (run) => {
      const n = value(run);
      return n === null ? "" : text(n);
    },
  });
  return [
    { name: "run", value: (r) => r.run_id, text: (r) => shortId(r.run_id) },
    { name: "run_id", value: (r) => r.run_id, text: (r) => r.run_id },
    { name: "name", shrinkTo: 8, value: (r) => r.name, text: (r) => r.name },
    { name: "state", value: (r) => r.state, text: (r) => r.state, style: (r) => stateStyle(r.state) },
    { name: "outcome", value: (r) => r.outcome, text: (r) => r.outcome ?? "" },
    { name: "reason", shrinkTo: 10, value: (r) => r.reason, text: (r) => r.reason ?? "" },
    {
      name: "attempt",
      align: "right",
      value: (r) => r.attempt,
      text: (r) => r.max_attempts > 1 ? `${r.attempt}/${r.max_attempts}` : String(r.attempt),
    },
    figure("priority", (r) => r.priority, String),
    figure("queue", (r) => r.queue_position, String),
    {
      name: "gpus",
      value: (r) => r.gpu_slots.join(" "),
      text: (r) => {
        const held = r.placement?.gpus ?? r.gpu_slots;
        return held.length > 0 ? held.join(",") : r.gpus_requested > 0 ? `(${r.gpus_requested})` : "";
      },
    },
    {
      name: "node",
      shrinkTo: 8,
      value: (r) => r.placement?.nodes.join(" ") ?? "",
      text: (r) => r.placement?.nodes.join(",") ?? "",
    },
    { name: "job", value: (r) => r.placement?.job ?? "", text: (r) => r.placement?.job ?? "" },
    { name: "tags", shrinkTo: 8, value: (r) => r.tags.join(" "), text: (r) => r.tags.join(",") },
    time("submitted", (r) => r.submitted_at),
    time("started", (r) => r.started_at),
    time("finished", (r) => r.finished_at),
    figure("elapsed", (r) => elapsedMs(r, now), duration),
    {
      ...figure("episodes", (r) => r.telemetry.episodes, count),
      text: (r) => withOverwritten(r.telemetry.episodes, r.telemetry.overwritten_episodes),
    },
    {
      ...figure("steps", stepsOf, count),
      text: (r) => withOverwritten(stepsOf(r), r.telemetry.overwritten_steps),
    },
    figure(
      "rate",
      (r) => r.outcome === null ? r.telemetry.steps_per_second : null,
      (n) => n === 0 ? "" : rate(n),
      rate,
    ),
    figure("reward", rewardOf, number),
    {
      name: "last_record",
      align: "right",
      value: (r) => r.telemetry.last_record_at,
      text: (r) => r.telemetry.last_record_at === null ? "" : ago(msOf(r.telemetry.last_record_at), now),
    },
    {
      name: "last_output",
      align: "right",
      value: (r) => r.telemetry.last_output_at,
      text: (r) => r.telemetry.last_output_at === null ? "" : ago(msOf(r.telemetry.last_output_at), now),
    },
    figure("backlog", backlog, (n) => n === 0 ? "" : bytes(n), bytes),
    figure("exit_code", (r) => r.exit_code, String),
    figure("max_steps", (r) => r.max_steps, compact),
    { name: "directory", value: (r) => r.directory, text: (r) => r.directory },
    { name: "note", shrinkTo: 10, value: (r) => note(r, now), text: (r) => note(r, now) },
  ];
}

/** Columns whose values the daemon must send. */
export function queried(names: readonly string[]): string[] {
  return [...new Set(names.filter((name) => /^(?:param|metric)\./.test(name)))];
}

/** A parameter or metric whose value came with the run. */
export function valueColumn(name: string): RunColumn {
  const of = (run: RunJson) => run.values?.[name] ?? null;
  return {
    name,
    heading: name,
    align: "right",
    shrinkTo: 8,
    value: (run) => {
      const value = of(run);
      return value === null || typeof value === "number" ? value : valueText(value);
    },
    text: (run) => {
      const value = of(run);
      return value === null
        ? ""
        : typeof value === "number" && name.startsWith("metric.")
        ? number(value)
        : valueText(value);
    },
  };
}

/** The columns with these names. @throws {MosaicError} `invalid_argument` for an unknown name */
export function chooseColumns(names: readonly string[], all: RunColumn[]): RunColumn[] {
  return names.map((name) => {
    const column = all.find((c) => c.name === name || c.name === name.toLowerCase().replaceAll("-", "_"));
    if (column !== undefined) return column;
    const known = all.map((c) => c.name);
    throw new MosaicError("invalid_argument", `no column "${name}".${didYouMean(name, known)}`, {
      hint: `Columns: ${known.join(", ")}.`,
    });
  });
}

/** Sorts by a column's plain value, nulls last; "-name": descending. */
export function sortRuns(runs: RunJson[], by: string, all: RunColumn[]): RunJson[] {
  const descending = by.startsWith("-");
  const [column] = chooseColumns([descending ? by.slice(1) : by], all);
  return [...runs].sort((a, b) => {
    const [x, y] = [column!.value(a), column!.value(b)];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return descending ? -order : order;
  });
}

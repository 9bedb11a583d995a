/**
 * The columns of a table of runs, for `mosaic list` and the page: text for people, and plain values
 * for CSV, sorting and groups.
 */
import { MosaicError } from "../../base/errors.ts";
import { bytes, compact, count, duration, number, rate } from "../../base/text/format.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { valueText } from "../parameter_text.ts";
import { shownState, stateWord } from "./lifecycle_states.ts";
import {
  agoText,
  attemptText,
  backlog,
  backlogText,
  elapsedMs,
  elapsedText,
  gpusText,
  note,
  rateText,
  rewardOf,
  stepsOf,
  timeText,
  withOverwritten,
} from "./run_texts.ts";
import type { RunJson } from "./run_types.ts";

export interface RunColumn {
  /** For `--columns`, `--sort` and CSV. */
  name: string;
  heading?: string;
  align?: "right";
  /** Minimum width when a terminal's table is too wide; absent: never cut. */
  shrinkTo?: number;
  /** @param now Unix milliseconds */
  value(run: RunJson, now: number): string | number | null;
  text(run: RunJson, now: number): string;
  /** Of a list: a filter compares with each of them. */
  items?(run: RunJson): readonly (string | number)[];
  /** Formats a mean of values, or their deviation, in the column's unit. */
  figure?(n: number): string;
}

/** A column whose values do not depend on the time, or at one moment. */
export type RunColumnNow = Omit<RunColumn, "value" | "text"> & {
  value(run: RunJson): string | number | null;
  text(run: RunJson): string;
};

const words = (
  name: string,
  value: (run: RunJson) => string | null,
  shrinkTo?: number,
): RunColumn => ({
  name,
  ...(shrinkTo === undefined ? {} : { shrinkTo }),
  value,
  text: (run) => value(run) ?? "",
});

/** Values are separated by blanks in CSV. */
const list = (
  name: string,
  values: (run: RunJson) => readonly (string | number)[],
  shrinkTo?: number,
): RunColumn => ({
  ...words(name, (run) => values(run).join(" "), shrinkTo),
  items: values,
  text: (run) => values(run).join(","),
});

const time = (name: string, at: (run: RunJson) => string | null): RunColumn => ({
  name,
  value: at,
  text: (run) => timeText(at(run)),
});

const since = (name: string, at: (run: RunJson) => string | null): RunColumn => ({
  name,
  align: "right",
  value: at,
  text: (run, now) => agoText(at(run), now),
});

const figure = (
  name: string,
  value: RunColumn["value"],
  figure: (n: number) => string,
  text: RunColumn["text"] = (run, now) =>
    value(run, now) === null ? "" : figure(value(run, now) as number),
): RunColumn => ({ name, align: "right", value, figure, text });

/** @param barWidth of the bar of progress; 0: none */
export function runColumns(barWidth = 0): RunColumn[] {
  return [
    words("run_id", (r) => r.run_id),
    words("name", (r) => r.name, 8),
    { ...words("state", (r) => r.state), text: (r) => stateWord(shownState(r)) },
    words("outcome", (r) => r.outcome),
    words("reason", (r) => r.reason, 10),
    figure("attempt", (r) => r.attempt, number, attemptText),
    figure("priority", (r) => r.priority, number),
    figure("queue", (r) => r.queue_position, number),
    { ...list("gpus", (r) => r.gpu_slots), text: gpusText },
    list("node", (r) => r.placement?.nodes ?? [], 8),
    words("job", (r) => r.placement?.job ?? ""),
    list("tags", (r) => r.tags, 8),
    words("owner", (r) => r.owner, 8),
    time("submitted", (r) => r.submitted_at),
    time("started", (r) => r.started_at),
    time("finished", (r) => r.finished_at),
    figure("elapsed", elapsedMs, duration, elapsedText),
    figure(
      "episodes",
      (r) => r.telemetry.episodes,
      count,
      (r) => withOverwritten(r.telemetry.episodes, r.telemetry.overwritten_episodes),
    ),
    figure(
      "steps",
      stepsOf,
      count,
      (r) => withOverwritten(stepsOf(r), r.telemetry.overwritten_steps),
    ),
    figure("rate", (r) => r.outcome === null ? r.telemetry.steps_per_second : null, rate, rateText),
    figure("reward", rewardOf, number),
    since("deleted", (r) => r.deleted_at),
    since("last_record", (r) => r.telemetry.last_record_at),
    since("last_output", (r) => r.telemetry.last_output_at),
    figure("backlog", backlog, bytes, backlogText),
    figure("exit_code", (r) => r.exit_code, number, (r) => String(r.exit_code ?? "")),
    figure("max_steps", (r) => r.max_steps, compact),
    words("directory", (r) => r.directory),
    { name: "note", shrinkTo: 10, value: note, text: (run, now) => note(run, now, barWidth) },
  ];
}

/** Columns whose values the daemon must send. */
export function queried(names: readonly string[]): string[] {
  return [...new Set(names.filter((name) => /^(?:param|metric)\./.test(name)))];
}

/** A parameter or metric whose value came with the run. */
export function valueColumn(name: string): RunColumnNow {
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
export function chooseColumns<C extends { name: string }>(
  names: readonly string[],
  all: readonly C[],
): C[] {
  return names.map((name) => {
    const column = all.find((c) =>
      c.name === name || c.name === name.toLowerCase().replaceAll("-", "_")
    );
    if (column !== undefined) return column;
    const known = all.map((c) => c.name);
    throw new MosaicError("invalid_argument", `no column "${name}".${didYouMean(name, known)}`, {
      hint: `Columns: ${known.join(", ")}.`,
    });
  });
}

/** Sweeps as text and as rows. */
import { duration, number } from "../../base/text/format.ts";
import type { PointJson, SweepJson, TrialJson } from "../../sweeps/summary.ts";
import { type Column, table } from "./table.ts";
import { escapeControl } from "./text.ts";

interface Terminal {
  isTty: boolean;
  width: number;
  color: boolean;
}

const optionsOf = ({ isTty, width, color }: Terminal) => ({ width: isTty ? width : undefined, color });

/** Rows of each table in a terminal; `-o csv` has all. */
const MOST_ROWS = 40;

export const trialsText = (count: number) => count === 1 ? "1 trial" : `${count} trials`;

const valueText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);

/** `running: 12 of 48 made, 4 executing, 8 terminated` */
export function statesLine({ state, made, total, states }: SweepJson): string {
  const counts = Object.entries(states).map(([name, n]) => `${n} ${name}`);
  return `${state}: ${[`${made} of ${total} made`, ...counts].join(", ")}`;
}

export function sweepsTable(sweeps: readonly SweepJson[], terminal: Terminal): string {
  const columns: Column<SweepJson>[] = [
    { name: "sweep", shrinkTo: 12, text: ({ name }) => name },
    { name: "state", text: ({ state }) => state },
    { name: "made", align: "right", text: ({ made, total }) => `${made}/${total}` },
    {
      name: "trials",
      shrinkTo: 12,
      text: ({ states }) => Object.entries(states).map(([s, n]) => `${n} ${s}`).join(", "),
    },
    { name: "parameters", shrinkTo: 10, text: ({ parameters }) => parameters.join(", ") },
    { name: "begun", text: ({ created_at }) => created_at.slice(0, 16).replace("T", " ") },
  ];
  return table(columns, sweeps, optionsOf(terminal));
}

/** Parameters by name that differ, or all if there is one. */
function namesIn(rows: readonly { parameters: Record<string, unknown> }[]): string[] {
  return [...new Set(rows.flatMap(({ parameters }) => Object.keys(parameters)))];
}

function meanText({ mean, low, high }: PointJson): string {
  if (mean === null) return "";
  return low === null || high === null ? number(mean) : `${number(mean)} [${number(low)}, ${number(high)}]`;
}

/** Best first; points without a value last. */
function ranked(points: readonly PointJson[], goal: string): PointJson[] {
  const sign = goal === "min" ? 1 : -1;
  return points.toSorted((a, b) =>
    a.mean === null || b.mean === null ? Number(a.mean === null) - Number(b.mean === null) : sign * (a.mean - b.mean)
  );
}

export function sweepText(sweep: SweepJson, terminal: Terminal): string {
  const { detail, metric, stop, budget } = sweep;
  const lines = [`${sweep.name}  ${statesLine(sweep)}`];
  const spent = [
    ...(detail === undefined ? [] : [`${duration(detail.spent.seconds * 1000)} of running time`]),
    ...(detail === undefined || detail.spent.steps === 0 ? [] : [`${detail.spent.steps} steps`]),
  ];
  const bounds = [
    ...(budget.seconds === undefined ? [] : [duration(budget.seconds * 1000)]),
    ...(budget.steps === undefined ? [] : [`${budget.steps} steps`]),
    ...(budget.runs === undefined ? [] : [`${budget.runs} runs`]),
  ];
  lines.push(`spent  ${spent.join(", ")}${bounds.length === 0 ? "" : `; budget ${bounds.join(", ")}`}`);
  if (sweep.waiting_for !== null) lines.push(`waits  ${sweep.waiting_for}`);
  if (metric !== null) {
    lines.push(`metric ${metric.name}, the ${metric.goal === "max" ? "higher" : "lower"} the better`);
  }
  if (detail === undefined) return lines.map((line) => `${escapeControl(line)}\n`).join("");
  const { best, winner, points, trials, stopped, saved } = detail;
  if (best !== null) {
    lines.push(
      `best   ${number(best.value)}, trial ${best.trial} (${best.run_id}): ${parametersText(best.parameters)}`,
    );
    lines.push(`       ${best.command}`);
  }
  if (winner !== null && winner.values > 1) {
    lines.push(
      `winner ${meanText(winner)} over ${trialsText(winner.values)}: ${parametersText(winner.parameters)}`,
    );
  }
  if (stop !== null && saved.trials > 0) {
    lines.push(
      `saved  about ${saved.steps} steps and ${duration(saved.seconds * 1000)} by stopping ${
        trialsText(saved.trials)
      } early`,
    );
  }
  let text = lines.map((line) => `${escapeControl(line)}\n`).join("");
  const rows = points.length === trials.length ? [] : ranked(points, metric?.goal ?? "max");
  if (rows.length > 0) text += `\n${table(pointColumns(rows), rows.slice(0, MOST_ROWS), optionsOf(terminal))}`;
  text += left(rows.length);
  if (trials.length > 0) {
    const listed = trials.toReversed();
    text += `\n${table(trialColumns(listed), listed.slice(-MOST_ROWS), optionsOf(terminal))}${left(trials.length)}`;
  }
  if (stopped.length > 0) {
    text += `\n${
      stopped.slice(-MOST_ROWS).map((one) => escapeControl(`trial ${one.trial} at ${one.step}: ${one.reason}`) + "\n")
        .join("")
    }`;
  }
  return text;
}

const left = (rows: number) => rows > MOST_ROWS ? `(${MOST_ROWS} of ${rows}; all: -o csv)\n` : "";

const parametersText = (parameters: Record<string, unknown>) =>
  Object.entries(parameters).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");

function pointColumns(points: readonly PointJson[]): Column<PointJson>[] {
  return [
    ...namesIn(points).map((name): Column<PointJson> => ({
      ...{ name, shrinkTo: 6, align: "right" },
      text: ({ parameters }) => parameters[name] === undefined ? "" : valueText(parameters[name]),
    })),
    { name: "mean", heading: "MEAN [95 %]", align: "right", text: meanText },
    { name: "values", align: "right", text: ({ values, trials }) => `${values}/${trials}` },
    { name: "pruned", align: "right", text: ({ pruned }) => String(pruned) },
    { name: "failed", align: "right", text: ({ failed }) => String(failed) },
  ];
}

function trialColumns(trials: readonly TrialJson[]): Column<TrialJson>[] {
  return [
    { name: "trial", align: "right", text: ({ trial }) => String(trial) },
    { name: "run", text: ({ run_id }) => run_id ?? "" },
    { name: "state", text: ({ state }) => state },
    ...namesIn(trials).map((name): Column<TrialJson> => ({
      ...{ name, shrinkTo: 6, align: "right" },
      text: ({ parameters }) => parameters[name] === undefined ? "" : valueText(parameters[name]),
    })),
    { name: "value", align: "right", text: ({ value }) => value === null ? "" : number(value) },
    { name: "steps", align: "right", text: ({ steps }) => String(steps) },
    { name: "time", align: "right", text: ({ seconds }) => duration(seconds * 1000) },
  ];
}

interface Rows {
  header: string[];
  rows: unknown[][];
}

export function pointRows({ detail, metric }: SweepJson): Rows {
  const points = ranked(detail?.points ?? [], metric?.goal ?? "max");
  const names = namesIn(points);
  return {
    header: [...names, "mean", "low", "high", "values", "trials", "pruned", "failed"],
    rows: points.map(({ parameters, mean, low, high, values, trials, pruned, failed }) => [
      ...names.map((name) => parameters[name]),
      ...[mean, low, high, values, trials, pruned, failed],
    ]),
  };
}

export function trialRows({ detail }: SweepJson): Rows {
  const trials = (detail?.trials ?? []).toReversed();
  const names = namesIn(trials);
  return {
    header: ["trial", "run_id", "state", ...names, "value", "steps", "seconds", "reason"],
    rows: trials.map(({ trial, run_id, state, parameters, value, steps, seconds, reason }) => [
      ...[trial, run_id, state],
      ...names.map((name) => parameters[name]),
      ...[value, steps, seconds, reason],
    ]),
  };
}

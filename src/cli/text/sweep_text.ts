/** Sweeps as text and as rows. */
import { count, duration, number } from "../../base/text/format.ts";
import { type Importance, importanceOf, importanceText } from "../../runs/importance.ts";
import { parametersText } from "../../sweeps/results/statement.ts";
import type { PointJson, SweepJson, TrialJson } from "../../sweeps/results/sweep_json.ts";
import { namesIn, ranked } from "../../sweeps/results/sweep_table.ts";
import { shellLine } from "../../base/text/terminal_text.ts";
import { sparkline } from "./chart.ts";
import { type Column, table } from "./table.ts";
import { escapeControl } from "./text.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

interface Terminal {
  isTty: boolean;
  width: number;
  color: boolean;
}

const optionsOf = ({ isTty, width, color }: Terminal) => ({
  width: isTty ? width : undefined,
  color,
});

/** Rows of each table in a terminal; `-o csv` has all. */
const MOST_ROWS = 40;

export const trialsText = (count: number) => count === 1 ? "1 trial" : `${count} trials`;

const valueText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);

const trialsWord = ([state, n]: [state: string, n: number]) =>
  `${n} ${trialWord(state).toLowerCase()}`;
const trialWord = (state: string) => stateWord(state.toUpperCase());

/** `running: 12 of 48 made, 4 running, 8 succeeded` */
export function statesLine({ state, made, total, states }: SweepJson): string {
  const counts = Object.entries(states).map(trialsWord);
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
      text: ({ states }) => Object.entries(states).map(trialsWord).join(", "),
    },
    { name: "parameters", shrinkTo: 10, text: ({ parameters }) => parameters.join(", ") },
    { name: "begun", text: ({ created_at }) => created_at.slice(0, 16).replace("T", " ") },
  ];
  return table(columns, sweeps, optionsOf(terminal));
}

function meanText({ mean, low, high }: PointJson): string {
  if (mean === null) return "";
  return low === null || high === null
    ? number(mean)
    : `${number(mean)} [${number(low)}, ${number(high)}]`;
}

/** Of a sweep's parameters for its metric. */
export function sweepImportance({ detail, seeds }: SweepJson): Importance {
  const known = (detail?.trials ?? []).filter(({ judged }) => judged !== null);
  return importanceOf(known.map(({ parameters, judged }) => ({
    parameters: Object.fromEntries(
      Object.entries(parameters).filter(([name]) => !seeds.includes(name)),
    ),
    result: judged!,
  })));
}

/** Columns of a bar, and of the curve of the best so far. */
const BAR = 24;

function importanceLines(importance: Importance, { metric, detail }: SweepJson): string {
  const { differing, parameters } = importance;
  // The only parameter needs no comparison.
  if (metric === null || differing < 2) return "";
  const at = detail!.judged_at === null ? "" : " at the first rung";
  const longest = Math.max(0, ...parameters.map(({ name }) => name.length));
  return "\n" + [
    `importance for ${metric.name}${at}: ${importanceText(importance)}`,
    ...parameters.map(({ name, share }) =>
      ` ${name.padEnd(longest)} ${String(Math.round(share * 100)).padStart(3)} % ${
        "▇".repeat(Math.round(share * BAR))
      }`
    ),
  ].map((line) => `${escapeControl(line)}\n`).join("");
}

/** How the best value came about, or nothing before the second. */
function courseLine({ detail, created_at }: SweepJson): string[] {
  const { best_so_far: bests, trials } = detail!;
  const last = bests.at(-1);
  if (last === undefined || bests.length < 2) return [];
  const begun = Date.parse(created_at);
  const end = Math.max(
    ...[last, ...trials.map(({ finished_at: at }) => ({ at }))].map(({ at }) =>
      at === null ? 0 : Date.parse(at)
    ),
  );
  const values = Array.from({ length: BAR }, (_, i) => {
    const at = begun + (end - begun) * (i + 1) / BAR;
    return bests.findLast((best) => Date.parse(best.at) <= at)?.value ?? NaN;
  });
  const after = duration(Date.parse(last.at) - begun);
  const better = `${count(bests.length - 1)} time${bests.length === 2 ? "" : "s"}`;
  return [
    `course ${sparkline(values, BAR)}  from ${
      number(bests[0]!.value)
    } better ${better}, last by trial ${last.trial} after ${after}`,
  ];
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
  lines.push(
    `spent  ${spent.join(", ")}${bounds.length === 0 ? "" : `; budget ${bounds.join(", ")}`}`,
  );
  if (sweep.waiting_for !== null) lines.push(`waits  ${sweep.waiting_for}`);
  if (metric !== null) {
    lines.push(
      `metric ${metric.name}, the ${metric.goal === "max" ? "higher" : "lower"} the better`,
    );
  }
  if (detail === undefined) return lines.map((line) => `${escapeControl(line)}\n`).join("");
  const { best, winner, points, trials, stopped, saved, reported } = detail;
  if (reported.length > 0) {
    lines.push(`       no trial has a value of it; they report ${reported.join(", ")}`);
  }
  // The point is what a person keeps; one trial says little of it if there are several.
  const keeps = winner !== null && winner.values > 1 ? winner : best;
  if (best !== null) {
    lines.push(
      `best   ${number(best.value)}, trial ${best.trial} (${best.run_id}): ${
        parametersText(best.parameters)
      }`,
    );
    if (keeps === best) lines.push(`       ${best.command}`);
  }
  if (keeps !== null && keeps === winner) {
    lines.push(
      [`winner ${meanText(winner)} over ${trialsText(winner.values)}`]
        .concat(parametersText(winner.parameters) || []).join(": "),
    );
    lines.push(`       ${winner.command}`);
  }
  lines.push(...courseLine(sweep));
  if (stop !== null && saved.trials > 0) {
    lines.push(
      `saved  about ${saved.steps} steps and ${duration(saved.seconds * 1000)} by stopping ${
        trialsText(saved.trials)
      } early`,
    );
  }
  if (
    keeps !== null && keeps === winner && detail.next_seeds !== null && sweep.state === "finished"
  ) {
    lines.push(
      `next   more seeds for the winner: mosaic sweep extend ${
        shellLine([sweep.name])
      } --winner --seeds ${detail.next_seeds}`,
    );
  }
  let text = lines.map((line) => `${escapeControl(line)}\n`).join("") +
    importanceLines(sweepImportance(sweep), sweep);
  const rows = points.length === trials.length ? [] : ranked(points, metric?.goal ?? "max");
  if (rows.length > 0) {
    text += `\n${
      table(pointColumns(rows, metric !== null), rows.slice(0, MOST_ROWS), optionsOf(terminal))
    }`;
  }
  text += left(rows.length);
  if (trials.length > 0) {
    const listed = trials.toReversed();
    text += `\n${table(trialColumns(listed), listed.slice(-MOST_ROWS), optionsOf(terminal))}${
      left(trials.length)
    }`;
  }
  if (stopped.length > 0) {
    text += `\n${
      stopped.slice(-MOST_ROWS).map((one) =>
        escapeControl(`trial ${one.trial} at ${one.step}: ${one.reason}`) + "\n"
      )
        .join("")
    }`;
  }
  return text;
}

const left = (rows: number) => rows > MOST_ROWS ? `(${MOST_ROWS} of ${rows}; all: -o csv)\n` : "";

/** @param judged they have values of a metric */
function pointColumns(points: readonly PointJson[], judged: boolean): Column<PointJson>[] {
  const values: Column<PointJson>[] = judged
    ? [
      { name: "mean", heading: "MEAN [95 %]", align: "right", text: meanText },
      { name: "values", align: "right", text: ({ values, trials }) => `${values}/${trials}` },
      { name: "pruned", align: "right", text: ({ pruned }) => String(pruned) },
    ]
    : [{ name: "trials", align: "right", text: ({ trials }) => String(trials) }];
  return [
    ...namesIn(points).map((name): Column<PointJson> => ({
      ...{ name, shrinkTo: 6, align: "right" },
      text: ({ parameters }) => parameters[name] === undefined ? "" : valueText(parameters[name]),
    })),
    ...values,
    { name: "failed", align: "right", text: ({ failed }) => String(failed) },
  ];
}

function trialColumns(trials: readonly TrialJson[]): Column<TrialJson>[] {
  return [
    { name: "trial", align: "right", text: ({ trial }) => String(trial) },
    { name: "run", text: ({ run_id }) => run_id ?? "" },
    { name: "state", text: ({ state }) => trialWord(state) },
    ...namesIn(trials).map((name): Column<TrialJson> => ({
      ...{ name, shrinkTo: 6, align: "right" },
      text: ({ parameters }) => parameters[name] === undefined ? "" : valueText(parameters[name]),
    })),
    { name: "value", align: "right", text: ({ value }) => value === null ? "" : number(value) },
    { name: "steps", align: "right", text: ({ steps }) => String(steps) },
    { name: "time", align: "right", text: ({ seconds }) => duration(seconds * 1000) },
  ];
}

/** The demo's output: progress of the runs, and the table at the end. */
import { sparkline } from "../text/chart.ts";
import { compact, count, duration, number, rate } from "../../base/text/format.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { progressText } from "../../runs/fields/progress.ts";
import { elapsedMs, progressOf } from "../../runs/fields/run_texts.ts";
import { table } from "../text/table.ts";
import { cut, escapeControl, pad, paint, stateStyle } from "../text/text.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

export interface DemoView {
  run: RunJson;
  /** Mean episode rewards over equal ranges of the run, oldest first. */
  rewards: number[];
}

const SPARK_WIDTH = 32;

/** Two lines per run, for redrawing on a terminal. */
export function liveLines(
  views: readonly DemoView[],
  { width, color }: { width: number; color: boolean },
): string[] {
  const name = Math.max(...views.map((v) => v.run.name.length));
  return views.flatMap(({ run, rewards }) => {
    const { telemetry: t } = run;
    const state = paint(stateWord(run.state).padEnd(9), stateStyle(run.state), color);
    const reward = t.mean_reward_100 === null ? "" : `reward ${number(t.mean_reward_100)}`;
    const progressWidth = Math.max(10, width - name - 15);
    return [
      `${paint(pad(escapeControl(run.name), name), "bold", color)}  ${state} ${
        cut(progressText(progressOf(run, Date.now()), 20), progressWidth)
      }`,
      `${" ".repeat(name)}  ${pad(`${compact(t.episodes)} episodes`, 14)}${pad(rateText(run), 9)}${
        pad(reward, 14)
      }${paint(sparkline(rewards, SPARK_WIDTH), "green", color)}`,
    ];
  });
}

/** One line, for output that is not a terminal. */
export function plainLine({ run, rewards }: DemoView): string {
  const { telemetry: t } = run;
  const reward = t.mean_reward_100 === null ? "-" : number(t.mean_reward_100);
  return `${run.name}: ${stateWord(run.state)}, ${count(t.episodes)} episodes, ${
    count(t.steps)
  } steps, ${rateText(run) || "0/s"}, mean reward of the last 100 episodes ${reward} ${
    sparkline(rewards, SPARK_WIDTH)
  }\n`;
}

function rateText(run: RunJson): string {
  return run.telemetry.steps_per_second > 0 ? rate(run.telemetry.steps_per_second) : "";
}

export function summary(views: readonly DemoView[], now: number, color: boolean): string {
  return table<DemoView>(
    [
      { name: "run", text: ({ run }) => run.name },
      {
        name: "state",
        text: ({ run }) => stateWord(run.state),
        style: ({ run }) => stateStyle(run.state),
      },
      { name: "episodes", align: "right", text: ({ run }) => count(run.telemetry.episodes) },
      { name: "steps", align: "right", text: ({ run }) => count(run.telemetry.steps) },
      { name: "took", align: "right", text: ({ run }) => duration(elapsedMs(run, now) ?? 0) },
      {
        name: "first reward",
        align: "right",
        text: ({ rewards }) => rewards.length === 0 ? "" : number(rewards[0]!),
      },
      {
        name: "last 100",
        align: "right",
        text: ({ run }) =>
          run.telemetry.mean_reward_100 === null ? "" : number(run.telemetry.mean_reward_100),
      },
      {
        name: "learning",
        text: ({ rewards }) => sparkline(rewards, SPARK_WIDTH),
        style: () => "green",
      },
    ],
    views,
    { width: undefined, color },
  );
}

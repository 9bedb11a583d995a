/** The list of sweeps, and one sweep: the best so far, parameters against the metric, points, trials, what was stopped. */
import { metricColumn } from "../../../runs/query/query_columns.ts";
import type { SweepJson } from "../../../dispatch/core/core.ts";
import { duration } from "../../../base/text/format.ts";
import { ticksOf } from "../../../base/time/ticks.ts";
import { answer, api, readOnly } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { Scatter } from "../charts/scatter.tsx";
import { figure, plural, whole } from "../parts/format.ts";
import { ScrollTable, Terms } from "../parts/parts.tsx";
import { render, useEffect, useState } from "../parts/preact.ts";
import { Chip } from "../parts/states.tsx";

type Detail = NonNullable<SweepJson["detail"]>;

const POLL_MS = 2000;
/** The view rests for this many times the time of an answer. */
const POLL_REST = 9;
/** Rows of a table until a person asks for all. */
const FIRST_ROWS = 50;

/** Draws into an element of the page. @param name of one sweep; "": all @returns ends it */
export function show(element: HTMLElement, name: string): () => void {
  render(name === "" ? <All /> : <One name={name} />, element);
  return () => render(null, element);
}

export function showScatter(element: HTMLElement, props: Parameters<typeof Scatter>[0]): void {
  render(<Scatter {...props} />, element);
}

/** Reads again while the view is open; faults are shown once, by the state of the connection. */
function usePolled<T>(read: () => Promise<T>): [T | undefined, () => void] {
  const [value, setValue] = useState<T>();
  const [asked, ask] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let mounted = true;
    let first = true;
    const again = async () => {
      const began = performance.now();
      if (first) await attempt(async () => setValue(await read()));
      else await read().then((value) => mounted && setValue(value), () => {});
      first = false;
      // A sweep of thousands of trials takes the daemon long to read.
      if (mounted) timer = setTimeout(again, Math.max(POLL_MS, POLL_REST * (performance.now() - began)));
    };
    again();
    return () => {
      mounted = false;
      clearTimeout(timer);
    };
  }, [asked]);
  return [value, () => ask(asked + 1)];
}

const statesText = ({ states }: SweepJson) => Object.entries(states).map(([state, n]) => `${n} ${state}`).join(", ");

function All() {
  const [sweeps] = usePolled(async () => (await answer(api.sweeps.$get()) as { sweeps: SweepJson[] }).sweeps);
  useEffect(() => {
    document.title = "Sweeps · mosaic";
  }, []);
  return (
    <>
      <h1>Sweeps</h1>
      {sweeps?.length === 0 && (
        <p class="empty">
          No sweeps yet. <code>{"mosaic sweep --grid lr=1e-3,3e-4 -- python train.py --lr {lr}"}</code> begins one.
        </p>
      )}
      {sweeps !== undefined && sweeps.length > 0 && (
        <ScrollTable
          label="Sweeps"
          kind="records"
          headings={["Sweep", "State", ["Trials", "num"], "", "Parameters", "Metric", "Begun"]}
        >
          {sweeps.map((sweep) => (
            <tr key={sweep.sweep_id}>
              <td>
                <a href={`/sweeps/${encodeURIComponent(sweep.name)}`}>{sweep.name}</a>
              </td>
              <td>{sweep.state}</td>
              <td class="num">{`${whole(sweep.made)} of ${whole(sweep.total)}`}</td>
              <td>{statesText(sweep)}</td>
              <td>{sweep.parameters.join(", ")}</td>
              <td>{sweep.metric?.name ?? ""}</td>
              <td>{sweep.created_at.slice(0, 16).replace("T", " ")}</td>
            </tr>
          ))}
        </ScrollTable>
      )}
    </>
  );
}

/** Changes that a state allows. */
const CHANGES: Record<string, string[]> = {
  running: ["pause", "cancel"],
  paused: ["resume", "cancel"],
  cancelled: ["resume"],
};

function One({ name }: { name: string }) {
  const [sweep, readAgain] = usePolled(async () =>
    await answer(api.sweeps[":id"].$get({ param: { id: encodeURIComponent(name) } })) as SweepJson
  );
  useEffect(() => {
    document.title = `${name} · sweeps · mosaic`;
  }, []);
  if (sweep?.detail === undefined) return <h1>{name}</h1>;
  const { detail, metric } = sweep;
  const { best, winner, saved, spent } = detail;
  const change = (action: string) => () =>
    attempt(async () => {
      await answer(api.sweeps[":id"][":action"].$post({ param: { id: encodeURIComponent(name), action } }));
      readAgain();
    });
  const failed = sweep.states["faulted"] ?? 0;
  return (
    <>
      <h1>{name}</h1>
      <div class="filters">
        <span>{`${sweep.state}: ${whole(sweep.made)} of ${whole(sweep.total)} made, ${statesText(sweep)}`}</span>
        {!readOnly &&
          (CHANGES[sweep.state] ?? []).map((action) => (
            <button key={action} type="button" onClick={change(action)}>
              {action[0]!.toUpperCase() + action.slice(1)}
            </button>
          ))}
        {!readOnly && failed > 0 && (
          <button type="button" onClick={change("retry_failed")}>{`Retry ${plural(failed, "failed trial")}`}</button>
        )}
        <a href={`/?where=${encodeURIComponent(`sweep = ${JSON.stringify(name)}`)}`}>Its runs</a>
      </div>
      <Terms
        kind="facts"
        of={[
          ...(metric === null
            ? []
            : [["Metric", `${metric.name}, the ${metric.goal === "max" ? "higher" : "lower"} the better`] as const]),
          ...(best === null ? [] : [["Best", `${figure(best.value)} in trial ${best.trial}`] as const]),
          ...(winner === null || winner.low === null ? [] : [
            [
              "Best point",
              `${figure(winner.mean!)} [${figure(winner.low)}, ${figure(winner.high!)}] over ${
                plural(winner.values, "trial")
              }: ${parametersText(winner.parameters)}`,
            ] as const,
          ]),
          ...(sweep.waiting_for === null ? [] : [["Waits", sweep.waiting_for] as const]),
          ["Spent", `${duration(spent.seconds * 1000)} of running time, ${whole(spent.steps)} steps`],
          ...(saved.trials === 0 ? [] : [
            [
              "Saved",
              `about ${whole(saved.steps)} steps and ${duration(saved.seconds * 1000)}, by stopping ${
                plural(saved.trials, "trial")
              } early`,
            ] as const,
          ]),
        ]}
      />
      {best !== null && (
        <p class="command">
          <code>{best.command}</code>{" "}
          <button type="button" class="link" onClick={() => attempt(() => navigator.clipboard.writeText(best.command))}>
            Copy
          </button>
        </p>
      )}
      <BestSoFar detail={detail} begun={Date.parse(sweep.created_at)} />
      {metric !== null && <Results detail={detail} result={metricColumn(metric.name, "last")} />}
      <Points detail={detail} goal={metric?.goal ?? "max"} />
      <Trials detail={detail} />
      {detail.stopped.length > 0 && (
        <>
          <h2>Stopped early</h2>
          <ScrollTable label="Stopped early" kind="records" headings={[["Trial", "num"], ["Step", "num"], "Why"]}>
            {detail.stopped.toReversed().slice(0, FIRST_ROWS).map(({ trial, run_id, step, reason }) => (
              <tr key={trial}>
                <td class="num">
                  <a href={`/runs/${run_id}`}>{trial}</a>
                </td>
                <td class="num">{whole(step)}</td>
                <td>{reason}</td>
              </tr>
            ))}
          </ScrollTable>
        </>
      )}
    </>
  );
}

const valueText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);
const parametersText = (parameters: Record<string, unknown>) =>
  Object.entries(parameters).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");

const SIZE = { width: 720, height: 220, left: 64, right: 24, top: 12, bottom: 32 };

/** Steps at the ends of trials that were better than all before. */
function BestSoFar({ detail, begun }: { detail: Detail; begun: number }) {
  const points = detail.best_so_far.map(({ at, value, trial }) => ({
    x: (Date.parse(at) - begun) / 1000,
    value,
    trial,
  }));
  if (points.length < 2) return null;
  const { width, height, left, right, top, bottom } = SIZE;
  const values = points.map(({ value }) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = Math.max(points.at(-1)!.x, 1);
  const px = (x: number) => left + x / last * (width - left - right);
  const py = (v: number) => height - bottom - (high === low ? 0.5 : (v - low) / (high - low)) * (height - top - bottom);
  const path = points.map(({ x, value }, i) => i === 0 ? `M${px(x)} ${py(value)}` : `H${px(x)}V${py(value)}`).join("");
  return (
    <>
      <h2>Best so far</h2>
      <section class="scatter">
        <svg
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={`Best so far: from ${figure(values[0]!)} to ${figure(values.at(-1)!)}`}
        >
          {ticksOf(low, high, 4).map((v) => (
            <g key={v}>
              <line class="grid" x1={left} x2={width - right} y1={py(v)} y2={py(v)} />
              <text x={left - 8} y={py(v)} text-anchor="end" dominant-baseline="middle">{figure(v)}</text>
            </g>
          ))}
          {ticksOf(0, last, 6).map((x) => (
            <text key={x} x={px(x)} y={height - 10} text-anchor="middle">{duration(x * 1000)}</text>
          ))}
          <path d={path} fill="none" stroke="var(--accent)" stroke-width="2" />
          {points.map(({ x, value, trial }) => (
            <circle key={trial} cx={px(x)} cy={py(value)} r="4" fill="var(--accent)">
              <title>{`trial ${trial}: ${figure(value)}`}</title>
            </circle>
          ))}
        </svg>
      </section>
    </>
  );
}

/** Drawn again only when another trial has ended or begun: its results are read once for all. */
function Results({ detail, result }: { detail: Detail; result: string }) {
  const runs = detail.trials.filter(({ value, run_id }) => value !== null && run_id !== null).map((trial) => ({
    run_id: trial.run_id!,
    name: `trial ${trial.trial}`,
    parameters: Object.entries(trial.parameters).map(([name, value]) => ({ name, value })),
  }));
  const ended = detail.trials.filter(({ state }) => state === "terminated" || state === "pruned").length;
  if (runs.length < 2) return null;
  return (
    <>
      <h2>Parameters and results</h2>
      <Scatter key={`${runs.length} ${ended}`} runs={runs} groups={[]} result={result} />
    </>
  );
}

function Points({ detail, goal }: { detail: Detail; goal: string }) {
  const [all, setAll] = useState(false);
  const { points } = detail;
  if (points.length === 0 || points.length === detail.trials.length) return null;
  const names = Object.keys(points[0]!.parameters);
  const sign = goal === "min" ? 1 : -1;
  const ranked = points.toSorted((a, b) =>
    a.mean === null || b.mean === null ? Number(a.mean === null) - Number(b.mean === null) : sign * (a.mean - b.mean)
  );
  return (
    <>
      <h2>Points</h2>
      <ScrollTable
        label="Points"
        kind="records"
        headings={[...names, ["Mean", "num"], ["95 % interval", "num"], ["Values", "num"], ["Stopped", "num"], [
          "Failed",
          "num",
        ]]}
      >
        {ranked.slice(0, all ? undefined : FIRST_ROWS).map((point, i) => (
          <tr key={i}>
            {names.map((name) => <td key={name}>{valueText(point.parameters[name])}</td>)}
            <td class="num">{figure(point.mean)}</td>
            <td class="num">{point.low === null ? "" : `${figure(point.low)} to ${figure(point.high!)}`}</td>
            <td class="num">{`${point.values} of ${point.trials}`}</td>
            <td class="num">{point.pruned || ""}</td>
            <td class="num">{point.failed || ""}</td>
          </tr>
        ))}
      </ScrollTable>
      <More of={points.length} all={all} show={() => setAll(true)} />
    </>
  );
}

function Trials({ detail }: { detail: Detail }) {
  const [all, setAll] = useState(false);
  const { trials } = detail;
  if (trials.length === 0) return null;
  const names = [...new Set(trials.slice(0, FIRST_ROWS).flatMap(({ parameters }) => Object.keys(parameters)))];
  return (
    <>
      <h2>Trials</h2>
      <ScrollTable
        label="Trials"
        kind="records"
        headings={[["Trial", "num"], "State", ...names, ["Value", "num"], ["Steps", "num"], ["Time", "num"], "Reason"]}
      >
        {trials.slice(0, all ? undefined : FIRST_ROWS).map((trial) => (
          <tr key={trial.trial}>
            <td class="num">
              {trial.run_id === null || trial.state === "deleted"
                ? trial.trial
                : <a href={`/runs/${trial.run_id}`}>{trial.trial}</a>}
            </td>
            <td>
              <Chip state={trial.state.toUpperCase()} />
            </td>
            {names.map((name) => <td key={name}>{valueText(trial.parameters[name])}</td>)}
            <td class="num">{figure(trial.value)}</td>
            <td class="num">{whole(trial.steps)}</td>
            <td class="num">{duration(trial.seconds * 1000)}</td>
            <td>{trial.reason ?? ""}</td>
          </tr>
        ))}
      </ScrollTable>
      <More of={trials.length} all={all} show={() => setAll(true)} />
    </>
  );
}

function More({ of, all, show }: { of: number; all: boolean; show: () => void }) {
  if (all || of <= FIRST_ROWS) return null;
  return <button type="button" class="link" onClick={show}>{`The first ${FIRST_ROWS} of ${of} rows: show all`}</button>;
}
